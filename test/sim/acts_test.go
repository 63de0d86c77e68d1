package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"holdfast/client"
	"holdfast/fsm" //nolint:depguard // reads the state machine
	"holdfast/session"
	"holdfast/test/sim/history"
)

// labels are those of a client's sessions where an operator ends sessions by label. Sessions that hold what others wait
// for are left alone: those of clients with locks, and of watchers.
func (w *world) labels(name string) map[string]string {
	if !w.administered() || strings.ContainsAny(name[:1], "pqox") {
		return nil
	}
	return map[string]string{ownerLabel: name}
}

const ownerLabel = "who"

// office is an operator who works on sessions.
type office struct {
	w    *world
	name string
	c    *client.Client
	rand *rand.Rand
	// acts counts its requests.
	acts int
}

func (w *world) office(ctx context.Context, size float64, act func(context.Context, *office) int) (done int) {
	o := &office{w: w, name: w.guest("op"), rand: w.stream(fmt.Sprintf("office %v", size))}
	o.c = w.operatorAt(o.name)
	defer o.c.Close()
	for ctx.Err() == nil {
		most := 5*time.Second - time.Duration(size*float64(4*time.Second))
		sleep(ctx, 100*time.Millisecond+time.Duration(o.rand.Int64N(int64(most))))
		if ctx.Err() == nil {
			done += act(context.WithoutCancel(ctx), o)
		}
	}
	return done
}

// EndSessions implements faults.Operator.
func (w *world) EndSessions(ctx context.Context, size float64) int {
	return w.office(ctx, size, func(ctx context.Context, o *office) int { return o.end(ctx) })
}

// Extend implements faults.Operator.
func (w *world) Extend(ctx context.Context, size float64) int {
	return w.office(ctx, size, func(ctx context.Context, o *office) int { return o.extend(ctx) })
}

// sessions lists the sessions of one client with labels, or of all.
func (o *office) sessions(ctx context.Context, who string, scope session.Scope) []session.Session {
	ctx, cancel := context.WithTimeout(ctx, operatorWaits)
	defer cancel()
	page, err := o.c.List(ctx, client.ListOptions{
		Labels: map[string]string{ownerLabel: who}, PageSize: session.MaxPage, Scope: scope,
	})
	if err != nil {
		return nil
	}
	all := make([]session.Session, 0, len(page.Sessions))
	for _, one := range page.Sessions {
		all = append(all, one.Session)
	}
	return all
}

func (o *office) reason() string {
	o.acts++
	return fmt.Sprintf("%s/%d", o.name, o.acts)
}

// end ends one session, or all of a client, and returns how many it has ended.
func (o *office) end(ctx context.Context) (ended int) {
	found := o.sessions(ctx, "", 0)
	if len(found) == 0 {
		return 0
	}
	one := found[o.rand.IntN(len(found))]
	ids := []session.ID{one.ID}
	if who, _ := one.Labels.Value(ownerLabel); o.rand.IntN(3) == 0 {
		found = o.sessions(ctx, who, 0)
		ids = nil
		for _, s := range found[:min(len(found), session.MaxKill)] {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(ctx, operatorWaits)
	defer cancel()
	why, sent := o.reason(), o.w.record.Now()
	killed, err := o.c.Kill(ctx, ids, why)
	for i, id := range ids {
		e := history.Event{Kind: history.Killed, Who: o.name, ID: id, Sent: sent, Act: outcome(why, err)}
		if err == nil {
			e.Index, e.Act = killed[i].Index, outcome(why, killed[i].Err)
		}
		if e.Act.Outcome == history.Done {
			ended++
		}
		o.w.record.Add(e)
	}
	return ended
}

// outcome returns the outcome of an act from its error.
func outcome(why string, err error) *history.Act {
	expired, gone := errors.AsType[*session.ExpiredError](err)
	switch {
	case err == nil:
		return &history.Act{Why: why, Outcome: history.Done}
	case gone && expired.LocalTo == 0:
		return &history.Act{Why: why, Outcome: history.WasGone, Err: err.Error()}
	default:
		return &history.Act{Why: why, Outcome: history.Doubtful, Err: err.Error()}
	}
}

// extend keeps a session for a time, or cancels an extension. Half of the times it extends a session that it has
// extended before.
func (o *office) extend(ctx context.Context) int {
	found := o.sessions(ctx, "", session.ScopeGlobal)
	o.w.mu.Lock()
	before := slices.Clone(found)
	before = slices.DeleteFunc(before, func(s session.Session) bool { return !o.w.extended[s.ID] })
	o.w.mu.Unlock()
	if len(before) > 0 && o.rand.IntN(2) == 0 {
		found = before
	}
	if len(found) == 0 {
		return 0
	}
	id := found[o.rand.IntN(len(found))].ID
	// Each request has a different time, so that the entry of the log identifies the request.
	lasts := time.Duration(1+o.rand.IntN(20)) * time.Second
	lasts += time.Duration(o.w.record.Now().Milliseconds()%1000) * time.Millisecond
	if o.rand.IntN(3) == 0 {
		lasts = 0
	}
	o.w.mu.Lock()
	o.w.extended[id] = true
	o.w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, operatorWaits)
	defer cancel()
	why, sent := o.reason(), o.w.record.Now()
	err := o.c.Extend(ctx, id, lasts)
	e := history.Event{Kind: history.Extended, Who: o.name, ID: id, Timeout: lasts, Sent: sent, Act: outcome(why, err)}
	o.w.record.Add(e)
	if err != nil {
		return 0
	}
	return 1
}

// keeps records which sessions the node keeps from an entry on, or no longer (Y4 extension).
func (p *process) keeps(now *fsm.Tree) {
	p.w.mu.Lock()
	sent := make([]session.ID, 0, len(p.w.extended))
	for id := range p.w.extended {
		sent = append(sent, id)
	}
	p.w.mu.Unlock()
	slices.SortFunc(sent, func(a, b session.ID) int { return cmp.Compare(a, b) })
	for _, id := range sent {
		until := now.ExtendedUntil(id)
		if until == p.kept[id] {
			continue
		}
		p.kept[id] = until
		e := history.Event{Kind: history.Kept, Who: p.name, ID: id, Index: now.Index, Until: until, ApplyDelay: p.lagging()}
		if until != 0 {
			e.Timeout = until - now.Clock
		}
		p.note(e)
	}
}
