// Interop suite for github.com/apache/rocketmq-client-go/v2 (remoting protocol).
// env NAMESRV_ADDR. Prints PASS/FAIL per case and "N passed, N failed". args: case-name substrings.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var ns = env("NAMESRV_ADDR", "127.0.0.1:9876")
var run = fmt.Sprintf("%x", time.Now().UnixMilli()%100000000)
var seq atomic.Int32

func env(k, d string) string {
	if v := os.Getenv(k); v != "" {
		return v
	}
	return d
}

type ctx struct {
	name    string
	closers []func()
}

func (c *ctx) topic() string         { return "go_" + c.name + "_" + run }
func (c *ctx) group(s string) string { return "gog_" + c.name + "_" + s + "_" + run }
func must(e error) {
	if e != nil {
		panic(e)
	}
}
func check(b bool, f string, a ...any) {
	if !b {
		panic(fmt.Errorf(f, a...))
	}
}
func await(sec int, what string, p func() bool) {
	for end := time.Now().Add(time.Duration(sec) * time.Second); !p(); time.Sleep(20 * time.Millisecond) {
		check(time.Now().Before(end), "timed out waiting for %s", what)
	}
}
func (c *ctx) producer(o ...producer.Option) rmq.Producer {
	o = append([]producer.Option{producer.WithNameServer([]string{ns}), producer.WithGroupName(c.group("p")), producer.WithInstanceName(fmt.Sprint("p", seq.Add(1))), producer.WithSendMsgTimeout(10 * time.Second)}, o...)
	p, e := rmq.NewProducer(o...)
	must(e)
	must(p.Start())
	c.closers = append(c.closers, func() { p.Shutdown() })
	return p
}
func (c *ctx) send(p rmq.Producer, m *primitive.Message) *primitive.SendResult {
	r, e := p.SendSync(context.Background(), m)
	must(e)
	check(r.Status == primitive.SendOK, "status %v", r.Status)
	return r
}
func msg(t, tag, key, body string) *primitive.Message {
	return primitive.NewMessage(t, []byte(body)).WithTag(tag).WithKeys([]string{key})
}

type box struct {
	mu sync.Mutex
	ms []*primitive.MessageExt
	at map[string]time.Time
}

func (b *box) add(ms ...*primitive.MessageExt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == nil {
		b.at = map[string]time.Time{}
	}
	for _, m := range ms {
		b.ms = append(b.ms, m)
		b.at[string(m.Body)] = time.Now()
	}
}
func (b *box) n() int { b.mu.Lock(); defer b.mu.Unlock(); return len(b.ms) }
func (b *box) bodies() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var r []string
	for _, m := range b.ms {
		r = append(r, string(m.Body))
	}
	sort.Strings(r)
	return r
}
func (c *ctx) push(g, topic string, sel consumer.MessageSelector, f func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error), o ...consumer.Option) rmq.PushConsumer {
	o = append([]consumer.Option{consumer.WithNameServer([]string{ns}), consumer.WithGroupName(c.group(g)), consumer.WithInstance(fmt.Sprint("c", seq.Add(1))), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}, o...)
	k, e := rmq.NewPushConsumer(o...)
	must(e)
	must(k.Subscribe(topic, sel, f))
	must(k.Start())
	c.closers = append(c.closers, func() { k.Shutdown() })
	return k
}
func (c *ctx) collect(g, topic string, sel consumer.MessageSelector, b *box, o ...consumer.Option) rmq.PushConsumer {
	return c.push(g, topic, sel, func(_ context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		b.add(ms...)
		return consumer.ConsumeSuccess, nil
	}, o...)
}

var all = consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}

func tag(e string) consumer.MessageSelector {
	return consumer.MessageSelector{Type: consumer.TAG, Expression: e}
}

type txl struct{ checks sync.Map }

func (t *txl) ExecuteLocalTransaction(m *primitive.Message) primitive.LocalTransactionState {
	switch {
	case strings.HasPrefix(string(m.Body), "commit"):
		return primitive.CommitMessageState
	case strings.HasPrefix(string(m.Body), "rollback"):
		return primitive.RollbackMessageState
	}
	return primitive.UnkonwnState
}
func (t *txl) CheckLocalTransaction(m *primitive.MessageExt) primitive.LocalTransactionState {
	t.checks.Store(string(m.Body), true)
	if string(m.Body) == "unknown-commit" {
		return primitive.CommitMessageState
	}
	return primitive.RollbackMessageState
}

var cases = []struct {
	name string
	f    func(c *ctx)
}{
	{"send_sync", func(c *ctx) {
		p := c.producer()
		for i := 0; i < 10; i++ {
			r := c.send(p, msg(c.topic(), "A", fmt.Sprint("k", i), fmt.Sprint("b", i)))
			check(r.MsgID != "" && r.OffsetMsgID != "" && r.MessageQueue != nil && r.QueueOffset >= 0, "result %v", r)
		}
	}},
	{"send_async", func(c *ctx) {
		p := c.producer()
		c.send(p, msg(c.topic(), "A", "k", "w"))
		var wg sync.WaitGroup
		var ok atomic.Int32
		for i := 0; i < 100; i++ {
			wg.Add(1)
			must(p.SendAsync(context.Background(), func(_ context.Context, r *primitive.SendResult, e error) {
				if e == nil && r.Status == primitive.SendOK {
					ok.Add(1)
				}
				wg.Done()
			}, msg(c.topic(), "A", "k", fmt.Sprint("b", i))))
		}
		wg.Wait()
		check(ok.Load() == 100, "ok %d", ok.Load())
	}},
	{"send_oneway_and_consume", func(c *ctx) {
		p := c.producer()
		c.send(p, msg(c.topic(), "A", "k", "w"))
		for i := 0; i < 20; i++ {
			must(p.SendOneWay(context.Background(), msg(c.topic(), "A", "k", fmt.Sprint("b", i))))
		}
		var b box
		c.collect("c", c.topic(), all, &b)
		await(40, "21", func() bool { return b.n() >= 21 })
	}},
	{"send_batch", func(c *ctx) {
		p := c.producer()
		var ms []*primitive.Message
		for i := 0; i < 32; i++ {
			ms = append(ms, msg(c.topic(), "A", fmt.Sprint("k", i), fmt.Sprint("b", i)))
		}
		r, e := p.SendSync(context.Background(), ms...)
		must(e)
		check(r.Status == primitive.SendOK, "status")
		var b box
		c.collect("c", c.topic(), all, &b)
		await(40, "32", func() bool { return b.n() >= 32 })
	}},
	{"push_concurrent", func(c *ctx) {
		p := c.producer()
		for i := 0; i < 200; i++ {
			m := msg(c.topic(), "A", "k", fmt.Sprint("héllo 消息 ", i))
			m.WithProperty("uni", "日本")
			c.send(p, m)
		}
		var b box
		c.collect("c", c.topic(), all, &b)
		await(40, "200", func() bool { return b.n() >= 200 })
		check(b.ms[0].GetProperty("uni") == "日本" && b.ms[0].GetTags() == "A", "props")
	}},
	{"tag_filter", func(c *ctx) {
		p := c.producer()
		for i := 0; i < 30; i++ {
			c.send(p, msg(c.topic(), fmt.Sprint("T", i%3), "k", fmt.Sprint("b", i)))
		}
		var a, ab box
		c.collect("a", c.topic(), tag("T0"), &a)
		c.collect("ab", c.topic(), tag("T0 || T1"), &ab)
		await(40, "10/20", func() bool { return a.n() >= 10 && ab.n() >= 20 })
		time.Sleep(500 * time.Millisecond)
		check(a.n() == 10 && ab.n() == 20, "got %d/%d", a.n(), ab.n())
	}},
	{"sql_filter", func(c *ctx) {
		p := c.producer()
		for i := 0; i < 30; i++ {
			m := msg(c.topic(), "A", "k", fmt.Sprint("b", i))
			m.WithProperty("a", fmt.Sprint(i))
			c.send(p, m)
		}
		var b box
		c.collect("c", c.topic(), consumer.MessageSelector{Type: consumer.SQL92, Expression: "a BETWEEN 5 AND 9 OR a > 27"}, &b)
		await(40, "7", func() bool { return b.n() >= 7 })
		time.Sleep(500 * time.Millisecond)
		check(b.n() == 7, "got %d", b.n())
	}},
	{"ordered", func(c *ctx) {
		p := c.producer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
		for s := 0; s < 10; s++ {
			for o := 0; o < 5; o++ {
				c.send(p, msg(c.topic(), "A", "k", fmt.Sprintf("%d:%d", o, s)).WithShardingKey(fmt.Sprint("order", o)))
			}
		}
		var mu sync.Mutex
		seen := map[string][]string{}
		var n int
		c.push("c", c.topic(), all, func(_ context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			mu.Lock()
			defer mu.Unlock()
			for _, m := range ms {
				f := strings.Split(string(m.Body), ":")
				seen[f[0]] = append(seen[f[0]], f[1])
				n++
			}
			return consumer.ConsumeSuccess, nil
		}, consumer.WithConsumerOrder(true))
		await(60, "50", func() bool { mu.Lock(); defer mu.Unlock(); return n >= 50 })
		for o, l := range seen {
			check(sort.StringsAreSorted(l) && len(l) == 10, "order %s: %v", o, l)
		}
	}},
	{"delay_level", func(c *ctx) {
		p := c.producer()
		c.send(p, msg(c.topic(), "W", "k", "w"))
		var b box
		c.collect("c", c.topic(), tag("A"), &b)
		t := time.Now()
		c.send(p, msg(c.topic(), "A", "k", "L1").WithDelayTimeLevel(1))
		c.send(p, msg(c.topic(), "A", "k", "L2").WithDelayTimeLevel(2))
		await(40, "2", func() bool { return b.n() >= 2 })
		check(b.at["L1"].Sub(t) > 900*time.Millisecond && b.at["L2"].Sub(t) > 4900*time.Millisecond && b.at["L2"].Sub(t) < 14*time.Second, "delays %v %v", b.at["L1"].Sub(t), b.at["L2"].Sub(t))
	}},
	{"timer_timestamp", func(c *ctx) {
		p := c.producer()
		c.send(p, msg(c.topic(), "W", "k", "w"))
		var b box
		c.collect("c", c.topic(), tag("A"), &b)
		t := time.Now()
		c.send(p, msg(c.topic(), "A", "k", "T").WithDelayTimestamp(t.Add(4*time.Second)))
		await(40, "1", func() bool { return b.n() >= 1 })
		d := b.at["T"].Sub(t)
		check(d > 3*time.Second && d < 12*time.Second, "delay %v", d)
	}},
	{"transaction", func(c *ctx) {
		l := &txl{}
		p, e := rmq.NewTransactionProducer(l, producer.WithNameServer([]string{ns}), producer.WithGroupName(c.group("tx")), producer.WithInstanceName(fmt.Sprint("p", seq.Add(1))))
		must(e)
		must(p.Start())
		c.closers = append(c.closers, func() { p.Shutdown() })
		want := []string{"commit1", "commit2", "unknown-commit"}
		for _, s := range append(want, "rollback1", "unknown-rollback") {
			_, e := p.SendMessageInTransaction(context.Background(), msg(c.topic(), "A", s, s))
			must(e)
		}
		var b box
		c.collect("c", c.topic(), all, &b)
		await(75, "3 committed + check", func() bool { _, ok := l.checks.Load("unknown-rollback"); return ok && b.n() >= 3 })
		time.Sleep(time.Second)
		check(strings.Join(b.bodies(), ",") == strings.Join(want, ","), "visible %v", b.bodies())
	}},
	{"pull_consumer", func(c *ctx) {
		p := c.producer()
		for i := 0; i < 20; i++ {
			c.send(p, msg(c.topic(), "A", "k", fmt.Sprint("b", i)))
		}
		k, e := rmq.NewPullConsumer(consumer.WithNameServer([]string{ns}), consumer.WithGroupName(c.group("pull")), consumer.WithInstance(fmt.Sprint("pl", seq.Add(1))), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
		must(e)
		must(k.Subscribe(c.topic(), all))
		must(k.Start())
		c.closers = append(c.closers, func() { k.Shutdown() })
		n := 0
		for end := time.Now().Add(30 * time.Second); n < 20 && time.Now().Before(end); {
			cr, e := k.Poll(context.Background(), time.Second)
			if consumer.IsNoNewMsgError(e) || cr == nil {
				continue
			}
			must(e)
			n += len(cr.GetMsgList())
			k.ACK(context.Background(), cr, consumer.ConsumeSuccess)
		}
		check(n == 20, "polled %d", n)
	}},
	{"broadcasting", func(c *ctx) {
		p := c.producer()
		for i := 0; i < 10; i++ {
			c.send(p, msg(c.topic(), "A", "k", fmt.Sprint("b", i)))
		}
		var a, b box
		c.collect("bc", c.topic(), all, &a, consumer.WithConsumerModel(consumer.BroadCasting))
		c.collect("bc", c.topic(), all, &b, consumer.WithConsumerModel(consumer.BroadCasting))
		await(40, "10 each", func() bool { return a.n() >= 10 && b.n() >= 10 })
	}},
	{"retry_and_dlq", func(c *ctx) {
		p := c.producer()
		c.send(p, msg(c.topic(), "A", "k", "r"))
		var n atomic.Int32
		c.push("c", c.topic(), all, func(cx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			n.Add(1)
			if cc, ok := primitive.GetConcurrentlyCtx(cx); ok {
				cc.DelayLevelWhenNextConsume = 1
			}
			return consumer.ConsumeRetryLater, nil
		}, consumer.WithMaxReconsumeTimes(2))
		await(80, "3 deliveries", func() bool { return n.Load() >= 3 })
		var b box
		await(40, "DLQ topic", func() bool {
			defer func() { recover() }()
			if b.n() == 0 {
				c.collect(fmt.Sprint("d", seq.Add(1)), "%DLQ%"+c.group("c"), all, &b)
				time.Sleep(3 * time.Second)
			}
			return b.n() >= 1
		})
	}},
	{"message_trace", func(c *ctx) {
		p := c.producer(producer.WithInterceptor(), producer.WithTrace(&primitive.TraceConfig{GroupName: c.group("p"), Access: primitive.Local, NamesrvAddrs: []string{ns}}))
		r := c.send(p, msg(c.topic(), "A", "tk", "b"))
		var b box
		c.collect("t", "RMQ_SYS_TRACE_TOPIC", all, &b, consumer.WithPullBatchSize(32))
		await(40, "trace of "+r.MsgID, func() bool { return strings.Contains(strings.Join(b.bodies(), "\n"), r.MsgID) })
	}},
	{"request_reply", func(c *ctx) {
		p, rp := c.producer(), c.producer(producer.WithGroupName(c.group("rp")))
		c.send(p, msg(c.topic(), "W", "k", "w"))
		var w atomic.Int32
		c.push("c", c.topic(), all, func(_ context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, m := range ms {
				w.Add(1)
				if m.GetProperty(primitive.PropertyCorrelationID) == "" {
					continue
				}
				r, e := consumer.CreateReplyMessage(m, nil)
				must(e)
				r.Body = append([]byte("re:"), m.Body...) // the helper of this version drops the body: Apache then answers CODE 1 (NullPointerException)
				rp.SendSync(context.Background(), r)
			}
			return consumer.ConsumeSuccess, nil
		})
		await(40, "warm", func() bool { return w.Load() >= 1 })
		r, e := p.Request(context.Background(), 10*time.Second, msg(c.topic(), "A", "k", "ping"))
		must(e)
		check(string(r.Body) == "re:ping", "reply %q", r.Body)
	}},
	{"admin_topics", func(c *ctx) {
		p := c.producer()
		r := c.send(p, msg(c.topic(), "A", "k", "w"))
		_ = r
		a, e := admin.NewAdmin(admin.WithResolver(primitive.NewPassthroughResolver([]string{ns})))
		must(e)
		t := "go_admin_" + run
		ba := env("BROKER_ADDR", "127.0.0.1:10911")
		if _, _, e := net.SplitHostPort(ba); e != nil {
			panic(errors.New("BROKER_ADDR"))
		}
		must(a.CreateTopic(context.Background(), admin.WithTopicCreate(t), admin.WithBrokerAddrCreate(ba), admin.WithReadQueueNums(3), admin.WithWriteQueueNums(3)))
		await(15, "topic listed", func() bool {
			l, e := a.FetchAllTopicList(context.Background())
			must(e)
			return strings.Contains(strings.Join(l.TopicList, ","), t)
		})
		must(a.DeleteTopic(context.Background(), admin.WithTopicDelete(t), admin.WithBrokerAddrDelete(ba), admin.WithNameSrvAddr([]string{ns})))
		_, e = a.GetAllSubscriptionGroup(context.Background(), ba, 5*time.Second)
		must(e)
	}},
}

func main() {
	rlog.SetLogLevel("error")
	rlog.SetOutputPath(os.DevNull)
	if len(os.Args) > 1 && os.Args[1] == "failover" {
		failoverLoad(os.Args[2:])
		return
	}
	if len(os.Args) > 1 && os.Args[1] == "ordered" {
		orderedLoad(os.Args[2:])
		return
	}
	pass, fail := 0, 0
	var mu sync.Mutex
	sem := make(chan struct{}, 4)
	var wg sync.WaitGroup
	leftOut := strings.Split(os.Getenv("LEFT_OUT"), ",")
	for _, k := range cases {
		if slices.Contains(leftOut, k.name) {
			fmt.Printf("LEFT OUT %s\n", k.name)
			continue
		}
		if len(os.Args) > 1 {
			hit := false
			for _, a := range os.Args[1:] {
				hit = hit || strings.Contains(k.name, a)
			}
			if !hit {
				continue
			}
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			sem <- struct{}{}
			defer func() { <-sem }()
			c := &ctx{name: k.name}
			t := time.Now()
			done := make(chan error, 1)
			go func() {
				defer func() {
					if r := recover(); r != nil {
						done <- fmt.Errorf("%v", r)
					}
				}()
				k.f(c)
				done <- nil
			}()
			var e error
			select {
			case e = <-done:
			case <-time.After(130 * time.Second):
				e = errors.New("case timeout")
			}
			mu.Lock()
			defer mu.Unlock()
			if e == nil {
				pass++
				fmt.Printf("PASS %-26s %v\n", k.name, time.Since(t).Round(time.Millisecond))
			} else {
				fail++
				fmt.Printf("FAIL %-26s %v\n", k.name, e)
			}
			for _, f := range c.closers {
				go f()
			}
		}()
	}
	wg.Wait()
	fmt.Printf("%d passed, %d failed\n", pass, fail)
	if fail > 0 {
		os.Exit(1)
	}
}
