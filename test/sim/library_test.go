package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/sim/history"
)

// mayRead draws the nodes whose read_only is on: none in two seeds of five, all in two, some in one. It does not change
// the seed's other draws.
func (w *world) mayRead() map[string]bool {
	r := w.stream("read-only")
	switch r.IntN(5) {
	case 0, 1:
		return nil
	case 2:
		few := r.Perm(len(w.names))[:1+r.IntN(len(w.names)-1)]
		set := make(map[string]bool)
		for _, at := range few {
			set[w.names[at]] = true
		}
		return set
	default:
		return all(w.names)
	}
}

// librarian is a tenant that reads through the SDK, and may read from read-only nodes.
func (w *world) librarian(name string, readOnly bool) *tenant {
	x := w.absent(name)
	x.readOnly = readOnly
	x.start(w.Host(name))
	return x
}

// study holds a few sessions, always keeps one, and reads its own and others', until ctx ends.
func (x *tenant) study(ctx context.Context) {
	for ctx.Err() == nil {
		held := x.all()
		switch draw := x.draw(24); {
		case len(held) == 0 || len(held) < 3 && draw == 0:
			x.open(ctx, 5*time.Second)
		case len(held) > 1 && draw == 1:
			x.close(ctx, slices.MinFunc(held, func(a, b *client.Session) int { return cmp.Compare(a.ID(), b.ID()) }))
		default:
			x.read(ctx)
		}
		sleep(ctx, x.between(100*time.Millisecond, 800*time.Millisecond))
	}
}

// read gets a session or a page of them.
func (x *tenant) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	read := &history.Read{Allows: x.readOnly, Seen: x.client.SeenIndex()}
	e := history.Event{Kind: history.Shown, Who: x.name, Sent: x.w.record.Now(), Read: read}
	if x.draw(5) == 0 {
		page, err := x.client.List(ctx, client.ListOptions{Scope: session.ScopeGlobal, PageSize: pageSize})
		read.Page, e.State = true, page.State
		for _, listed := range page.Sessions {
			read.Sessions = append(read.Sessions, listed.Session)
		}
		if n := len(read.Sessions); page.Next != "" && n > 0 {
			read.Through = read.Sessions[n-1].ID
		}
		x.shown(e, err)
		return
	}
	x.mu.Lock()
	e.ID = x.w.someID(x.rand)
	x.mu.Unlock()
	if held := x.all(); len(held) > 0 && x.draw(3) == 0 {
		e.ID = held[0].ID()
	}
	if e.ID == 0 {
		return
	}
	found, err := x.client.Get(ctx, e.ID)
	e.State, e.Certificate = found.State, found.Certificate
	if err == nil && found.Certificate == nil {
		read.Sessions = []session.Session{found.Session}
	}
	x.shown(e, err)
}

// shown records what was read, or that nothing was. When an answer says that a session is not known, the SDK does not
// say which node answered.
func (x *tenant) shown(e history.Event, err error) {
	if err != nil {
		e.Kind, e.Op, e.Text, e.Read, e.State = history.Refused, history.Show, err.Error(), nil, session.NodeState{}
		e.Lagging = errors.Is(err, session.ErrLagging)
	}
	e.Node = e.State.Node
	x.w.record.Add(e)
}

// seclude cuts a node that may become read-only off from the others, together with readers that may read there, for a
// little longer than the node needs to become read-only. It follows the plan's faults, where read_only is on.
func (w *world) seclude(ctx context.Context, p *population) {
	r := w.stream("seclusion")
	var may []string
	for _, name := range w.names {
		if w.readOnly[name] {
			may = append(may, name)
		}
	}
	if len(may) == 0 || ctx.Err() != nil {
		return
	}
	here := []string{may[r.IntN(len(may))]}
	there := slices.DeleteFunc(slices.Clone(w.names), func(n string) bool { return n == here[0] })
	for _, x := range p.readers {
		here = append(here, x.name)
	}
	sleep(ctx, time.Duration(1+r.IntN(6))*time.Second)
	text := fmt.Sprintf("seclude %s", strings.Join(here, " "))
	w.record.Add(history.Event{Kind: history.FaultBegan, Text: text})
	mend := w.part(here, there)
	sleep(ctx, 8*time.Second+time.Duration(r.Int64N(int64(7*time.Second))))
	mend()
	w.record.Add(history.Event{Kind: history.FaultEnded, Text: text})
}
