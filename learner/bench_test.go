package learner

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/learner/local"
	"holdfast/session"
)

// million fills a table with a million sessions, opened one each millisecond, and returns them in the order of their
// opens.
func million(b *testing.B) (*TouchTable, []*attached) {
	b.Helper()
	const sessions = 1_000_000
	table := NewTouchTable()
	served := make([]*attached, 0, sessions)
	for i := range sessions {
		id := session.ID(1)<<56 | session.ID(i+1)<<16
		served = append(served, table.attach(session.Session{
			ID: id, Spec: session.Spec{Timeout: timeout},
			Attachment: uint64(i + 1),
		}, nil,
			mark{tag: table.nextTag()}, 0))
	}
	// Two rounds give the lists their room.
	for range 2 {
		for _, a := range served {
			if _, err := table.touch(a, 1); err != nil {
				b.Fatal(err)
			}
		}
		table.swap(nil, false)
	}
	return table, served
}

// shuffle puts sessions in an order in which every touch misses the caches.
func shuffle(served []*attached) {
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(served), func(i, j int) { served[i], served[j] = served[j], served[i] })
}

// BenchmarkTouch measures one touch with its promise and its lock, by one writer.
func BenchmarkTouch(b *testing.B) {
	b.Run("in-order", func(b *testing.B) { benchmarkTouch(b, func([]*attached) {}) })
	b.Run("random", func(b *testing.B) { benchmarkTouch(b, shuffle) })
}

func benchmarkTouch(b *testing.B, arrange func([]*attached)) {
	b.Helper()
	table, served := million(b)
	arrange(served)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		if _, err := table.touch(served[i], time.Duration(i)); err != nil {
			b.Fatal(err)
		}
		if i++; i == len(served) {
			i = 0
		}
	}
}

// BenchmarkTouchParallel measures the touches of 1,000 connections with 1,000 sessions each. A message touches all
// sessions of a connection; there is a writer on each processor, while a taker swaps the table as often as heartbeats
// do. In order, a connection has opened its sessions one after the other.
func BenchmarkTouchParallel(b *testing.B) {
	b.Run("in-order", func(b *testing.B) { benchmarkTouchParallel(b, func([]*attached) {}) })
	b.Run("random", func(b *testing.B) { benchmarkTouchParallel(b, shuffle) })
}

func benchmarkTouchParallel(b *testing.B, arrange func([]*attached)) {
	b.Helper()
	const each = 1000
	table, served := million(b)
	arrange(served)
	cfg := Config{Interval: time.Hour}
	server := &Server{table: table, clock: newClock(&cfg, time.Now(), func() {})}
	var connections []*connection
	for len(served) > 0 {
		c := &connection{server: server}
		for _, a := range served[:each] {
			c.add(a)
		}
		c.Touch(nil)
		connections, served = append(connections, c), served[each:]
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		var buf []sweptTouch
		for {
			select {
			case <-ticker.C:
				buf, _ = table.swap(buf[:0], false)
			case <-stop:
				return
			}
		}
	}()
	var next atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			connections[int(next.Add(1))%len(connections)].Touch(nil)
		}
	})
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/each, "ns/touch")
	close(stop)
	<-stopped
}

// BenchmarkAnswer measures the taking, sorting and packing of 100,000 touches.
func BenchmarkAnswer(b *testing.B) {
	const touched = 100_000
	table, served := million(b)
	cfg := Config{Interval: time.Second}
	answerer := &answerer{
		link: sink{}, table: table, clock: newClock(&cfg, time.Now(), func() {}), view: newFakeView(),
		log: &answerLog{}, drain: &drainer{},
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for _, a := range served[:touched] {
			if _, err := table.touch(a, 1); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if err := answerer.answer(&session.Heartbeat{Round: 1}, false); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/touched, "ns/session")
}

// sink is a link that accepts every message.
type sink struct{}

func (sink) Send(session.LearnerMessage) error    { return nil }
func (sink) Close() error                         { return nil }
func (sink) Recv() (session.LeaderMessage, error) { return session.LeaderMessage{}, errLinkEnded }

// BenchmarkHeap measures the memory of one served session: its place in the table and with its connection. One
// iteration serves 100,000 sessions through ten connections.
func BenchmarkHeap(b *testing.B) {
	const sessions, connections = 100_000, 10
	live := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	perSession := 0.0
	for b.Loop() {
		before := live()
		table := NewTouchTable()
		conns := make([]*connection, connections)
		for i := range conns {
			conns[i] = &connection{locals: make(map[session.ID]*local.Session)}
		}
		for i := range sessions {
			id := session.ID(1)<<56 | session.ID(i+1)<<16
			c := conns[i%connections]
			a := table.attach(session.Session{ID: id, Spec: session.Spec{Timeout: timeout}, Attachment: uint64(i + 1)},
				c, mark{tag: table.nextTag()}, 0)
			c.sessions.put(a)
			if _, err := table.touch(a, 1); err != nil {
				b.Fatal(err)
			}
		}
		perSession = float64(live()-before) / sessions
		runtime.KeepAlive(table)
		runtime.KeepAlive(conns)
	}
	b.ReportMetric(perSession, "B/session")
}

// BenchmarkApplyQueue waits for as many indexes as there are waits, none of which is applied.
func BenchmarkApplyQueue(b *testing.B) {
	for _, n := range []int{1_000, 30_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				q := newApplyQueue(newFakeView(), time.Second)
				for i := range n {
					q.after(uint64(1+(i*7919)%n), noted{log: new(notes)})
				}
				begun := time.Now()
				for range n {
					q.lowest()
					q.removeDone(0, begun)
				}
				q.removeDone(uint64(n), begun)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/wait")
		})
	}
}
