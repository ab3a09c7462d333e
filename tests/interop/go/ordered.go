package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	rmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// One sender to each of eight queues and two consumers in order, for tests that restart brokers
// meanwhile. The ledger and the files that end it are those of Kinds.java; Noted.java tells its lines.
const (
	orderedTopic  = "kinds_orderly_go"
	orderedGroup  = "kinds_orderly_go_g"
	orderedQueues = 8
)

type ordered struct {
	mu       sync.Mutex
	out      *os.File
	definite []string
}

func (o *ordered) line(format string, arguments ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, e := fmt.Fprintf(o.out, format+"\n", arguments...)
	must(e)
}

// Select gives a message to the queue of its sender.
func (o *ordered) Select(m *primitive.Message, queues []*primitive.MessageQueue, _ string) *primitive.MessageQueue {
	for _, queue := range queues {
		if strconv.Itoa(queue.QueueId) == m.GetShardingKey() {
			return queue
		}
	}
	return nil
}

func millis() int64 { return time.Now().UnixMilli() }

func orderedBody(key string, number int) string {
	return key + " " + strings.Repeat("x", number*37%900)
}

func (o *ordered) outcome(r *primitive.SendResult, e error) string {
	if e == nil {
		if r.Status == primitive.SendOK {
			return "ok"
		}
		return "unknown"
	}
	for _, code := range o.definite {
		if strings.Contains(e.Error(), "CODE: "+code+",") {
			return "refused"
		}
	}
	return "unknown"
}

func (o *ordered) send(p rmq.Producer, sender int) {
	for number := 1; !exists("stop"); number++ {
		key := fmt.Sprintf("orderly.%d.%d", sender, number)
		for done := false; !done && !exists("stop"); {
			m := msg(orderedTopic, "t", key, orderedBody(key, number)).WithShardingKey(strconv.Itoa(sender))
			from := millis()
			r, e := p.SendSync(context.Background(), m)
			outcome := o.outcome(r, e)
			o.line("sent %s once %d..%d %s", key, from, millis(), outcome)
			done = outcome == "ok"
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (o *ordered) take(by string, m *primitive.MessageExt) {
	from, key := millis(), strings.TrimSpace(m.GetKeys())
	// Long enough that two consumers at one queue would be seen.
	time.Sleep(time.Millisecond)
	number, e := strconv.Atoi(key[strings.LastIndex(key, ".")+1:])
	whole := "whole"
	if e != nil || string(m.Body) != orderedBody(key, number) {
		whole = "spoilt"
	}
	o.line("got %s %d..%d %s %s/%d@%d:%d %d %d took %s", key, from, millis(), by, m.Topic, m.Queue.QueueId,
		m.QueueOffset, m.CommitLogOffset, m.ReconsumeTimes, m.BornTimestamp, whole)
}

func (o *ordered) consumer(by string) rmq.PushConsumer {
	k, e := rmq.NewPushConsumer(consumer.WithNameServer(strings.Split(ns, ";")), consumer.WithGroupName(orderedGroup),
		consumer.WithInstance(by), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithConsumerOrder(true))
	must(e)
	must(k.Subscribe(orderedTopic, all, func(_ context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range ms {
			o.take(by, m)
		}
		return consumer.ConsumeSuccess, nil
	}))
	must(k.Start())
	return k
}

// args: DEFINITE_CODES
func orderedLoad(args []string) {
	out, e := os.OpenFile("ledger", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(e)
	o := &ordered{out: out, definite: strings.Split(args[0], ",")}
	a, e := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver(strings.Split(ns, ";"))))
	must(e)
	must(a.CreateTopic(context.Background(), admin.WithTopicCreate(orderedTopic), admin.WithBrokerAddrCreate(os.Getenv("BROKER_ADDR")),
		admin.WithReadQueueNums(orderedQueues), admin.WithWriteQueueNums(orderedQueues)))
	// Attempts that the client repeats by itself would not be in the ledger.
	p, e := rmq.NewProducer(producer.WithNameServer(strings.Split(ns, ";")), producer.WithGroupName("kinds_orderly_go_p"),
		producer.WithRetry(0), producer.WithQueueSelector(o))
	must(e)
	must(p.Start())
	first, second := o.consumer("A"), o.consumer("B")
	o.line("ready")
	var wg sync.WaitGroup
	for sender := range orderedQueues {
		wg.Add(1)
		go func() {
			defer wg.Done()
			o.send(p, sender)
		}()
	}
	wg.Wait()
	o.line("ended")
	for !exists("end") {
		time.Sleep(50 * time.Millisecond)
	}
	must(first.Shutdown())
	must(second.Shutdown())
	must(p.Shutdown())
}
