package learner

import (
	"slices"
	"testing"

	"holdfast/session"
)

// Each of the others is named first to clients with its part of the sessions, however large each client is, and no
// address is left out.
func TestQ1ClientsAreSpreadBySessions(t *testing.T) {
	all := []string{"n1", "n2", "n3", "n4"}
	o := &Offload{to: func() []string { return slices.Clone(all) }, parts: map[string]int{}}
	first := map[string]int{}
	for i := range 400 {
		order := o.inTurn(1 + i%7)
		first[order[0]] += 1 + i%7
		if slices.Sort(order); !slices.Equal(order, all) {
			t.Fatalf("got %v, want all of %v", order, all)
		}
	}
	for _, address := range all {
		if got := first[address]; got < 390 || got > 410 {
			t.Errorf("%s comes first to clients with %d of %d sessions", address, got, 1597)
		}
	}
}

// goes is a client that counts its events.
type goes struct {
	session.Events

	away, stay int
	full       bool
}

func (g *goes) Draining(why *session.DrainingError) {
	g.away++
	g.full = why.DiskFull
}

func (g *goes) DrainingEnded() { g.stay++ }

// A node with a full disk sends away once each client that it has then. It accepts opens and resumes, and clients that
// come later or come back get no event. With free space again it notifies the clients that have stayed (O5 full disks).
func TestO5ClientsAreSentAwayOnce(t *testing.T) {
	s := &Server{clients: &clients{connections: map[*connection]struct{}{}}}
	s.modeFacts = &modeFacts{}
	join := func() (*goes, *connection) {
		g, c := &goes{}, &connection{server: s}
		var events session.Events = g
		c.events.Store(&events)
		s.clients.add(c)
		return g, c
	}
	stays, _ := join()
	gone, left := join()
	away := s.Offload(func() []string { return []string{"n2:7400"} })
	late, _ := join()
	for range 3 {
		away.AskNext(1000)
	}
	left.events.Store(nil)
	s.clients.remove(left)
	if s.modeFacts.drain.on() {
		t.Error("the node refuses opens and resumes")
	}
	away.End()
	if !stays.full || !gone.full {
		t.Error("the clients are not told that the disk is full")
	}
	if stays.away != 1 || stays.stay != 1 || gone.away != 1 || gone.stay != 0 || late.away+late.stay > 0 {
		t.Errorf("told are one that stays %+v, one that has gone %+v and one that came later %+v", stays, gone, late)
	}
}
