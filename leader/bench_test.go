package leader

import (
	"cmp"
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"holdfast/session"
)

const million = 1_000_000

// population is the sessions of three nodes after months: opened one by one at about a hundred a second, one in three
// still alive. It is also the view and the frozen copy of benchmarks.
type population []session.Session

func populate(n int) population {
	random := rand.New(rand.NewPCG(1, 2))
	all := make(population, 0, n)
	for node := session.Node(1); node <= 3; node++ {
		ms, last := uint64(20_000_000_000), session.ID(0)
		for range n / 3 {
			ms += uint64(random.ExpFloat64() * 10)
			last, _ = session.NextID(last, node, ms)
			all = append(all, session.Session{
				ID: last, Spec: session.Spec{Timeout: 30 * time.Second}, Owner: node,
				Attachment: 1,
			})
		}
	}
	return all
}

func (p population) Ascend(_ session.ID, yield func(session.Session) bool) {
	for i := range p {
		if !yield(p[i]) {
			return
		}
	}
}

func (population) Session(session.ID) (session.Session, bool) { return session.Session{}, false }
func (population) Verify(session.ID, session.Credential) bool { return true }
func (population) Attachment() uint64                         { return 1 }
func (population) Term() uint64                               { return 1 }
func (population) CommitIndex() uint64                        { return 1 }
func (population) LastIndex() uint64                          { return 1 }
func (population) AppliedIndex() uint64                       { return 1 }
func (population) Members() []session.Member                  { return []session.Member{{Node: 1, Voter: true}} }

func (population) Propose(context.Context, session.Command) (session.Result, error) {
	return session.Result{}, session.ErrNotLeader
}

func (population) Submit(_ session.Command, done func(session.Result, error)) {
	done(session.Result{}, session.ErrNotLeader)
}

func tracking(p population) *Tracker {
	t := New(Config{Node: 1, Term: 1, Limits: session.DefaultLimits()}, p, p)
	t.fill(context.Background(), p)
	return t
}

// batch packs touches of n sessions of node 2: of every session, or of one in so many.
func batch(p population, n, every int) *session.Answer {
	random := rand.New(rand.NewPCG(3, 4))
	touches := make([]session.Touch, 0, n)
	for i, s := range p[len(p)/3:] {
		if len(touches) < n && i%every == 0 {
			touches = append(touches,
				session.Touch{ID: s.ID, Age: time.Duration(random.IntN(10_000)) * time.Millisecond})
		}
	}
	return &session.Answer{Attachment: 1, Touches: session.AppendTouches(nil, touches), Last: true}
}

// BenchmarkIngest processes a packed batch of 100,000 sessions of one owner in a tracker of a million.
func BenchmarkIngest(b *testing.B) { ingest(b, 100_000, 1) }

// BenchmarkIngestSparse processes touches of one session in twenty, as they arrive in an interval when clients touch
// every 10 s.
func BenchmarkIngestSparse(b *testing.B) { ingest(b, 16_000, 20) }

func ingest(b *testing.B, n, every int) {
	b.Helper()
	p := populate(million)
	t, a := tracking(p), batch(p, n, every)
	b.ReportAllocs()
	for b.Loop() {
		if refused, err := t.ingest(2, a, t.heartbeats.now()); err != nil || refused != nil {
			b.Fatal(len(refused), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/session")
	b.ReportMetric(float64(len(a.Touches))/float64(n), "B/session")
}

// BenchmarkHeap reports the live heap of a tracker of a million sessions.
func BenchmarkHeap(b *testing.B) {
	p := populate(million)
	for b.Loop() {
		before := liveHeap()
		t := tracking(p)
		b.ReportMetric(float64(liveHeap()-before)/float64(len(p)), "B/session")
		runtime.KeepAlive(t)
	}
	runtime.KeepAlive(p)
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkPoll finds 100,000 sessions of lost owners due, and pops and marks them in batches.
func BenchmarkPoll(b *testing.B) { poll(b, nil) }

// BenchmarkPollStalled does the same when each owner has stalled 64 times since the sessions were touched, as often as
// is remembered.
func BenchmarkPollStalled(b *testing.B) {
	var stalls *session.Stalls
	at := time.Minute
	for range 64 {
		at += 10 * time.Second
		stalls = stalls.With(at, time.Second, time.Second)
	}
	poll(b, stalls)
}

func poll(b *testing.B, stalls *session.Stalls) {
	b.Helper()
	p := populate(99_999)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		t := tracking(p)
		t.heartbeats.rounds.good = &round{n: 1, began: time.Hour}
		words := t.heartbeats.rounds.owners(time.Hour, 0)
		for i := range words {
			words[i].stalls = stalls
		}
		x := t.expirer()
		b.StartTimer()
		popped := 0
		x.sift(time.Hour, words)
		for {
			batch, _ := x.popDue(time.Hour, words, session.MaxCloseBatch)
			if popped += len(batch); len(batch) == 0 {
				break
			}
		}
		if popped != len(p) {
			b.Fatalf("%d popped", popped)
		}
	}
}

// known is a population whose sessions can be found by id.
type known struct{ population }

func (k known) Session(id session.ID) (session.Session, bool) {
	i, ok := slices.BinarySearchFunc(k.population, id, func(s session.Session, id session.ID) int {
		return cmp.Compare(s.ID, id)
	})
	if !ok {
		return session.Session{}, false
	}
	return k.population[i], true
}

// BenchmarkSoonest finds those of a million sessions that are soonest to expire: a page of all, and a page of those
// with a label that one of a hundred has.
func BenchmarkSoonest(b *testing.B) {
	p := populate(million)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range p {
		if p[i].Timeout = 30*time.Second + time.Duration(random.IntN(10_000))*time.Millisecond; i%100 == 0 {
			p[i].Labels = session.Labels{{Key: "service", Value: "web"}}
		}
	}
	t := New(Config{Node: 1, Term: 1, Limits: session.DefaultLimits()}, p, known{p})
	t.fill(context.Background(), p)
	for name, labels := range map[string]session.Labels{"all": nil, "labelled": {{Key: "service"}}} {
		b.Run(name, func(b *testing.B) {
			r := session.SoonestRequest{Size: session.MaxPage, Filter: session.Filter{Labels: labels}}
			b.ReportAllocs()
			for b.Loop() {
				look := t.requests.searchSoonest(&r)
				for i := range t.registry.shards {
					t.requests.search(&t.registry.shards[i], &look)
				}
				if look.cut(); len(look.first) != session.MaxPage {
					b.Fatalf("found %d", len(look.first))
				}
			}
		})
	}
}

// BenchmarkPromotion begins to lead a million sessions, and reports the time until a touch is accepted and until all
// are in the queue.
func BenchmarkPromotion(b *testing.B) {
	p := populate(million)
	a := batch(p, 1, 1)
	for b.Loop() {
		begun := time.Now()
		t := New(Config{Node: 1, Term: 1, Limits: session.DefaultLimits()}, p, p)
		if _, err := t.ingest(2, a, t.heartbeats.now()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(begun).Microseconds()), "us-to-first-touch")
		t.fill(context.Background(), p)
		b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms-to-filled")
	}
}
