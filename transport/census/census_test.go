package census

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// fake is a connection whose counters a test sets.
type fake struct {
	requests, looked atomic.Uint64
	id               session.ID
	caller           Caller
	load             Load
}

func (f *fake) Requests() uint64 {
	f.looked.Add(1)
	return f.requests.Load()
}
func (f *fake) Serves(id session.ID) bool { return f.id == id }
func (f *fake) Sessions(most int) (ids []session.ID) {
	for n := range min(most, f.load.Sessions) {
		ids = append([]session.ID{f.id + session.ID(n)}, ids...)
	}
	return ids
}
func (f *fake) Caller() Caller { return f.caller }
func (f *fake) Load() Load     { return f.load }

func at(n int) net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: n} }

func addresses(found []Connection) (all []string) {
	for _, one := range found {
		all = append(all, one.Address)
	}
	return all
}

// The list has the busiest connections of all, whatever the limit is, in the order that sorting all of them gives.
func TestTheBusiestOfAll(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for seed := range uint64(200) {
			r := rand.New(rand.NewPCG(seed, 0))
			c := New()
			defer c.Close()
			type one struct {
				address  string
				requests uint64
				joined   int
			}
			var want []one
			for n := range r.IntN(60) {
				f := &fake{}
				f.requests.Store(r.Uint64N(8)) // many are equally busy
				e := c.Join(GRPC, at(n+1), f)
				time.Sleep(time.Second)
				if r.IntN(4) == 0 {
					e.Leave()
					continue
				}
				want = append(want, one{e.address.String(), f.requests.Load(), n})
			}
			now := time.Now()
			all, _ := c.List(Query{Limit: 1000})
			since := make(map[string]time.Time)
			for _, found := range all {
				since[found.Address] = found.Since
			}
			rate := func(o one) float64 { return float64(o.requests) / now.Sub(since[o.address]).Seconds() }
			slices.SortFunc(want, func(a, b one) int {
				switch {
				case rate(a) != rate(b):
					if rate(a) > rate(b) {
						return -1
					}
					return 1
				case a.requests != b.requests:
					return int(b.requests) - int(a.requests) //nolint:gosec // below 8
				default:
					return a.joined - b.joined
				}
			})
			for _, limit := range []int{1, 2, 7, 30, 100} {
				found, total := c.List(Query{Limit: limit})
				var wanted []string
				for _, o := range want[:min(limit, len(want))] {
					wanted = append(wanted, o.address)
				}
				if total != len(want) || !slices.Equal(addresses(found), wanted) {
					t.Fatalf("seed %d, limit %d: %d in all, %v, want %d, %v", seed, limit, total, addresses(found), len(want),
						wanted)
				}
			}
		}
	})
}

// Rates are over the life of a connection while nobody asks, and over the last seconds once somebody does. A minute
// after the last question the connections are looked at no more.
func TestRates(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New()
		defer c.Close()
		f := &fake{}
		defer c.Join(GRPC, at(1), f).Leave()
		rate := func(what string, want float64, over time.Duration) {
			t.Helper()
			found, _ := c.List(Query{Limit: 1})
			if len(found) != 1 || found[0].Rate != want || found[0].Over != over || found[0].Requests != f.requests.Load() {
				t.Fatalf("%s: %+v, want %v a second over %v", what, found, want, over)
			}
		}
		f.requests.Store(100)
		time.Sleep(100 * time.Second)
		if f.looked.Load() != 0 {
			t.Fatal("a node that nobody asks looks at its connections")
		}
		rate("the first question", 1, 100*time.Second)
		f.requests.Add(40)
		time.Sleep(2 * time.Second)
		rate("soon after", 20, 2*time.Second)
		time.Sleep(5 * time.Second) // notes at 0 s and 5 s
		rate("after some seconds", 40.0/7, 7*time.Second)
		f.requests.Add(90)
		time.Sleep(6*time.Second + time.Millisecond) // notes at 5 s and 10 s
		rate("after some more", 90/8.001, 8001*time.Millisecond)

		time.Sleep(time.Hour)
		looked := f.looked.Load()
		time.Sleep(time.Hour)
		if now := f.looked.Load(); now != looked || looked > 20 {
			t.Errorf("%d looks in the first hour without a question, %d after the second", looked, now)
		}
		found, _ := c.List(Query{Limit: 1})
		if life := time.Since(found[0].Since); found[0].Over != life {
			t.Errorf("after hours the rate is over %v, want %v", found[0].Over, life)
		}
	})
}

func TestYoungConnections(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New()
		c.List(Query{Limit: 1})
		f := &fake{}
		f.requests.Store(3)
		c.Join(ZooKeeper, nil, f)
		if found, total := c.List(Query{Limit: 1}); total != 1 || found[0].Rate != 0 || found[0].Over != 0 ||
			found[0].Address != "" {
			t.Errorf("at once: %+v", found)
		}
		time.Sleep(500 * time.Millisecond)
		if found, _ := c.List(Query{Limit: 1}); found[0].Rate != 6 || found[0].Over != time.Second/2 ||
			found[0].Protocol != ZooKeeper {
			t.Errorf("after half a second: %+v", found)
		}
		c.Close()
		looked := f.looked.Load()
		time.Sleep(time.Minute)
		if f.looked.Load() != looked {
			t.Error("a closed census looks at its connections")
		}
		if found, _ := c.List(Query{Limit: 1}); found[0].Over != time.Minute+time.Second/2 {
			t.Errorf("a closed census: %+v", found)
		}
	})
}

// Filters: the session, and texts of the caller's name and principals as they are shown. Nobody finds out a hash by
// looking for its beginning.
func TestFilters(t *testing.T) {
	c := New()
	defer c.Close()
	for n, f := range []*fake{
		{id: 7, caller: Caller{Name: "worker-1", Principals: []tree.Principal{{Scheme: tree.IP, ID: "10.0.0.7"}}}},
		{id: 8, caller: Caller{Principals: []tree.Principal{
			{Scheme: tree.Digest, ID: "boss:HaSh"}, {Scheme: tree.Super}, {Scheme: tree.X509, ID: "CN=worker"},
		}}},
		{id: 9, load: Load{Sessions: 3, Watches: 2, Unsent: 1}},
	} {
		c.Join(GRPC, at(n+1), f)
	}
	for _, tt := range []struct {
		q    Query
		want string
	}{
		{Query{}, "[10.0.0.1:1 10.0.0.1:2 10.0.0.1:3]"},
		{Query{Session: 8}, "[10.0.0.1:2]"},
		{Query{Session: 6}, "[]"},
		{Query{Principal: "worker"}, "[10.0.0.1:1 10.0.0.1:2]"},
		{Query{Principal: "ip:10.0.0.7"}, "[10.0.0.1:1]"},
		{Query{Principal: "digest:boss"}, "[10.0.0.1:2]"},
		{Query{Principal: "super"}, "[10.0.0.1:2]"},
		{Query{Principal: "boss:"}, "[]"},
		{Query{Principal: "HaSh"}, "[]"},
		{Query{Principal: "Worker"}, "[]"},
		{Query{Principal: "worker", Session: 7}, "[10.0.0.1:1]"},
		{Query{Principal: "worker", Session: 9}, "[]"},
	} {
		tt.q.Limit = 10
		found, total := c.List(tt.q)
		slices.SortFunc(found, func(a, b Connection) int { return a.Since.Compare(b.Since) })
		if got := fmt.Sprint(addresses(found)); got != tt.want || total != len(found) {
			t.Errorf("%+v: %s, %d in all, want %s", tt.q, got, total, tt.want)
		}
	}
	if found, _ := c.List(Query{Limit: 1, Session: 9, Sessions: 2}); !slices.Equal(found[0].Some, []session.ID{9, 10}) {
		t.Errorf("some of its sessions are %v", found[0].Some)
	}
	if found, _ := c.List(Query{Limit: 1, Session: 9}); found[0].Some != nil ||
		found[0].Load != (Load{Sessions: 3, Watches: 2, Unsent: 1}) {
		t.Errorf("the load is %+v", found[0].Load)
	}
}

// Connections come and go while others look; what has left is not kept.
func TestJoinAndLeaveBesideLists(t *testing.T) {
	c := New()
	defer c.Close()
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 500 {
				f := &fake{}
				f.requests.Add(1)
				first, second := c.Join(GRPC, at(1), f), c.Join(GRPC, at(2), f)
				first.Leave()
				second.Leave()
			}
		}()
	}
	for left := 4; left > 0; {
		select {
		case <-done:
			left--
		default:
			if found, total := c.List(Query{Limit: 3}); total > 8 || len(found) > 3 {
				t.Fatalf("%d of %d connections, of 8 at most", len(found), total)
			}
		}
	}
	if found, total := c.List(Query{Limit: 3}); total != 0 || len(found) != 0 {
		t.Errorf("%d connections are left", total)
	}
	for i := range c.parts {
		if c.parts[i].entries != nil {
			t.Error("an empty part keeps its memory")
		}
	}
	for _, e := range c.part[:cap(c.part)] {
		if e != nil {
			t.Error("the census keeps a connection that has left")
		}
	}
}

// BenchmarkList lists the 100 busiest of 100,000 connections.
func BenchmarkList(b *testing.B) {
	c := New()
	defer c.Close()
	for n := range 100_000 {
		f := &fake{id: session.ID(n + 1), caller: Caller{Principals: []tree.Principal{{Scheme: tree.IP, ID: "10.0.0.1"}}}}
		f.requests.Store(rand.Uint64N(1 << 20))
		c.Join(GRPC, at(n), f)
	}
	for name, q := range map[string]Query{
		"all": {Limit: 100}, "session": {Limit: 100, Session: 50_000}, "principal": {Limit: 100, Principal: "10.0"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.List(q)
			}
		})
	}
}
