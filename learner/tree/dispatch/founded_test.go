package dispatch_test

import (
	"testing"
	"time"

	"holdfast/learner/tree/dispatch"
	"holdfast/tree"
	"holdfast/tree/store"
)

// W8: a request that comes after the founding, to a dispatcher that has not gone on to it yet, is answered as of the
// founding.
func TestW8ADispatcherBehindTheFoundingAnswersNothing(t *testing.T) {
	of := store.New(noDigest{}, tree.DefaultLimits(), store.At{Stamp: tree.StampAt(0, 1)})
	hub := dispatch.NewHub(dispatch.DefaultHubLimits(), dispatch.State{Root: of.Freeze()})
	l := dispatch.New(dispatch.Shared{
		Hub: hub, Writes: noWrites{}, Budgets: dispatch.DefaultBudgets(),
	}, dispatch.DefaultLimits(), func() {})
	c := l.Open(root, func() {})
	_, changes := of.Do(store.At{Stamp: tree.StampAt(1, 1), Principals: root}, tree.Transaction{
		Then: []tree.Op{tree.Create{Path: "/a", Kind: tree.Persistent}},
	})
	hub.Applied(dispatch.State{Index: 1, Founded: true, Root: of.Freeze()}, changes, nil)
	if _, err := l.Read(c, dispatch.Read{Query: tree.Query{Kind: tree.GetStat, Path: "/a"}}); err != nil {
		t.Fatal(err)
	}
	for _, job := range l.Work() {
		job.Do()
	}
	if told, ok := c.Next(time.Time{}); ok {
		t.Fatalf("before the dispatcher has gone on, the client is told %+v", told.Value.Answer)
	}
	l.Pass()
	for _, job := range l.Work() {
		job.Do()
	}
	if told, ok := c.Next(time.Time{}); !ok || told.Value.Answer == nil || !told.Value.Answer.Read.Exists {
		t.Errorf("after it, the client is told %+v", told.Value.Answer)
	}
}
