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
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// Senders for tests of failover, as Failover.java is for Java: arguments and files are the same. The
// client has its default settings; its choice of a queue is listened to, so that each attempt that it
// makes by itself is noted too.
type failover struct {
	producer.QueueSelector
	mu       sync.Mutex
	zero     time.Time
	definite []string
	out      *os.File
	open     map[string]attempt
}

type attempt struct {
	queue int
	from  int64
}

func (f *failover) now() int64 { return time.Since(f.zero).Microseconds() }

func (f *failover) Select(m *primitive.Message, queues []*primitive.MessageQueue, last string) *primitive.MessageQueue {
	queue, key := f.QueueSelector.Select(m, queues, last), strings.TrimSpace(m.GetKeys())
	f.mu.Lock()
	defer f.mu.Unlock()
	// The attempt before this one had no answer.
	f.end(key, "unknown")
	if queue != nil {
		f.open[key] = attempt{queue.QueueId, f.now()}
	}
	return queue
}

func (f *failover) end(key, outcome string) {
	a, ok := f.open[key]
	if !ok {
		return
	}
	delete(f.open, key)
	sender, _, _ := strings.Cut(key, ".")
	_, e := fmt.Fprintf(f.out, "%s %s %d %d..%d %s\n", sender, key, a.queue, a.from, f.now(), outcome)
	must(e)
}

func (f *failover) outcome(r *primitive.SendResult, e error) string {
	if e == nil {
		if r.Status == primitive.SendOK {
			return fmt.Sprint("at ", r.QueueOffset)
		}
		return "unknown"
	}
	if strings.Contains(e.Error(), "route info not found") {
		return "refused"
	}
	for _, code := range f.definite {
		if strings.Contains(e.Error(), "CODE: "+code+",") {
			return "refused"
		}
	}
	return "unknown"
}

func exists(name string) bool {
	_, e := os.Stat(name)
	return e == nil
}

func (f *failover) send(p rmq.Producer, topic, sender string, pause time.Duration) {
	for number := 1; !exists("stop"); number++ {
		key := fmt.Sprint(sender, ".", number)
		body := key + " " + strings.Repeat("x", number*37%900)
		for done := false; !done && !exists("stop"); {
			if exists("pause") {
				time.Sleep(50 * time.Millisecond)
				continue
			}
			r, e := p.SendSync(context.Background(), msg(topic, fmt.Sprint("tag", number%3), key, body))
			f.mu.Lock()
			outcome := f.outcome(r, e)
			f.end(key, outcome)
			f.mu.Unlock()
			done = strings.HasPrefix(outcome, "at ")
			if done {
				time.Sleep(pause)
			} else {
				fmt.Println(key, e)
				time.Sleep(50 * time.Millisecond)
			}
		}
	}
}

// args: TOPIC SENDERS PAUSE_MILLIS EPOCH_MICROS DEFINITE_CODES
func failoverLoad(args []string) {
	number := func(text string) int64 {
		n, e := strconv.ParseInt(text, 10, 64)
		must(e)
		return n
	}
	out, e := os.OpenFile("attempts", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	must(e)
	// With its monotonic part, so that the clock goes on evenly.
	now := time.Now()
	f := &failover{
		QueueSelector: producer.NewRoundRobinQueueSelector(),
		zero:          now.Add(-now.Sub(time.UnixMicro(number(args[3])))),
		definite:      strings.Split(args[4], ","),
		out:           out,
		open:          map[string]attempt{},
	}
	p, e := rmq.NewProducer(producer.WithNameServer(strings.Split(ns, ";")), producer.WithGroupName("failover_go"), producer.WithQueueSelector(f))
	must(e)
	must(p.Start())
	var wg sync.WaitGroup
	for i := range number(args[1]) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			f.send(p, args[0], fmt.Sprint("g", i), time.Duration(number(args[2]))*time.Millisecond)
		}()
	}
	wg.Wait()
	must(p.Shutdown())
	must(out.Close())
}
