package dispatch_test

import (
	"testing"
	"time"

	"holdfast/learner/tree/dispatch"
	"holdfast/learner/tree/pending"
	"holdfast/tree"
	"holdfast/tree/store"
)

// noWrites is a queue of writes that nobody uses.
type noWrites struct{}

func (noWrites) Accept(*pending.Write) error { return nil }
func (noWrites) Refused(*pending.Write)      {}
func (noWrites) Repeated(*pending.Write)     {}

// benchmarked returns a dispatcher whose tree has the entry /a with 100 bytes, its hub and the tree.
func benchmarked(b *testing.B) (*dispatch.Dispatcher, *dispatch.Hub, *store.Tree) {
	b.Helper()
	of := store.New(noDigest{}, tree.DefaultLimits(), store.At{Stamp: tree.StampAt(1, 1)})
	of.Do(store.At{Stamp: tree.StampAt(1, 2), Principals: root}, tree.Transaction{
		Then: []tree.Op{tree.Create{Path: "/a", Kind: tree.Persistent, Data: make([]byte, 100)}},
	})
	hub := dispatch.NewHub(dispatch.DefaultHubLimits(), dispatch.State{Index: 1, Founded: true, Root: of.Freeze()})
	shared := dispatch.Shared{
		Hub: hub, Writes: noWrites{}, Budgets: dispatch.DefaultBudgets(),
	}
	return dispatch.New(shared, dispatch.DefaultLimits(), func() {}), hub, of
}

// BenchmarkPass is one change that 10,000 connections watch, from the applied state to their writers.
func BenchmarkPass(b *testing.B) {
	l, hub, of := benchmarked(b)
	conns := make([]*dispatch.Conn, 10_000)
	for i := range conns {
		conns[i] = l.Open(root, func() {})
		spec := []tree.WatchSpec{{Path: "/a", Kind: tree.WatchPersistent}}
		if err := l.AddWatches(conns[i], dispatch.Addition{Addition: tree.Addition{Watches: spec}}); err != nil {
			b.Fatal(err)
		}
		l.Work()
		conns[i].Next(time.Time{})
	}
	index := uint64(1)
	b.ReportAllocs()
	for b.Loop() {
		index++
		at := store.At{Stamp: tree.StampAt(index, 1), Principals: root}
		_, changes := of.Do(at, tree.Transaction{Then: []tree.Op{tree.Set{Path: "/a", Version: tree.Any}}})
		hub.Applied(dispatch.State{Index: index, Founded: true, Root: of.Freeze()}, changes, nil)
		l.Pass()
		l.Work()
		for _, c := range conns {
			if s, ok := c.Next(time.Time{}); !ok || s.Value.Answer != nil {
				b.Fatal("no event")
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(conns)), "ns/event")
}

// BenchmarkRead is a read of 100 bytes by one connection of a dispatcher, from the request to its writer.
func BenchmarkRead(b *testing.B) {
	for _, of := range []struct {
		name  string
		watch bool
	}{{"plain", false}, {"watched", true}} {
		b.Run(of.name, func(b *testing.B) {
			l, _, _ := benchmarked(b)
			c := l.Open(root, func() {})
			l.Attach(c, 1, 1, 1)
			r := dispatch.Read{Attachment: 1, Query: tree.Query{Kind: tree.GetEntry, Path: "/a", Session: 1, Watch: of.watch}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Read(c, r); err != nil {
					b.Fatal(err)
				}
				for _, job := range l.Work() {
					job.Do()
				}
				if s, ok := c.Next(time.Time{}); !ok || len(s.Value.Answer.Read.Data) != 100 {
					b.Fatal("no answer")
				}
			}
		})
	}
}
