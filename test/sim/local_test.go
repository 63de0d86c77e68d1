package sim

import (
	"context"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/sim/history"
)

// localTenant is a tenant that opens a share of its sessions as local sessions.
func (w *world) localTenant(name string, share float64) *tenant {
	x := w.tenant(name)
	x.local = share
	return x
}

// opensLocally draws whether the next session is a local one.
func (x *tenant) opensLocally() bool {
	if x.local == 0 { // without a draw, so that other draws stay the same
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.rand.Float64() < x.local
}

// keepToItself opens local sessions, holds them and closes some, until ctx ends. The client holds no other session, so
// no other node can draw it away from its node.
func (x *tenant) keepToItself(ctx context.Context) {
	for ctx.Err() == nil {
		s := x.open(ctx, 30*time.Second)
		sleep(ctx, x.between(time.Second, 12*time.Second))
		if s != nil && ctx.Err() == nil && (x.draw(3) == 0 || len(x.all()) > 4) {
			x.close(ctx, s)
		}
	}
}

// lift opens sessions, most of them local, and upgrades some: by several callers at once, by another client with the
// token, and by a caller that does not wait for the outcome. With other it takes sessions over that have become global.
func (x *tenant) lift(ctx context.Context, other *tenant) {
	for ctx.Err() == nil {
		s := x.open(ctx, 30*time.Second)
		if s == nil {
			sleep(ctx, 500*time.Millisecond)
			continue
		}
		sleep(ctx, x.between(100*time.Millisecond, 6*time.Second))
		if ctx.Err() != nil {
			return
		}
		switch x.draw(6) {
		case 0:
			x.upgrade(ctx, s, 10*time.Second, 1)
		case 1:
			x.upgrade(ctx, s, 10*time.Second, 3)
		case 2:
			x.upgrade(ctx, s, x.between(time.Millisecond, 200*time.Millisecond), 1)
		case 3:
			var all sync.WaitGroup
			all.Go(func() { x.upgrade(ctx, s, 10*time.Second, 1) })
			all.Go(func() { other.upgradeToken(ctx, s.Token()) })
			all.Wait()
			x.rob(ctx, s, []*tenant{other})
		case 4:
			x.close(ctx, s)
		}
		if len(x.all()) > 6 && s.Err() == nil {
			x.close(ctx, s)
		}
	}
}

// upgrade makes a session global, by several callers at once.
func (x *tenant) upgrade(ctx context.Context, s *client.Session, within time.Duration, callers int) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if !s.Local() {
		return
	}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			sent := x.asksToUpgrade(s.Token())
			if err := s.Upgrade(ctx); err != nil {
				x.upgradeRefused(s.Token(), sent, err)
				return
			}
			x.w.record.Add(x.event(history.Upgraded, s, sent))
		})
	}
	all.Wait()
}

// upgradeToken makes the local session of a token global, whichever client holds it.
func (x *tenant) upgradeToken(ctx context.Context, t session.Token) {
	if !t.Local {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	sent := x.asksToUpgrade(t)
	u, err := x.client.UpgradeToken(ctx, t)
	if err != nil {
		x.upgradeRefused(t, sent, err)
		return
	}
	x.w.record.Add(x.w.upgraded(x.name, u, sent))
}

func (w *world) upgraded(who string, u client.Upgraded, sent time.Duration) history.Event {
	e := history.Event{
		Kind: history.Upgraded, Who: who, ID: u.Token.ID, Attachment: u.Token.Attachment, Local: u.Token.Local,
		Node: u.Session.Owner, Sent: sent,
	}
	if !u.SafeUntil.IsZero() {
		e.Until = w.record.Since(u.SafeUntil)
	}
	return e
}

func (x *tenant) asksToUpgrade(t session.Token) (sent time.Duration) {
	sent = x.w.record.Now()
	x.w.record.Add(
		history.Event{Kind: history.UpgradeSent, Who: x.name, ID: t.ID, Attachment: t.Attachment, Local: t.Local},
	)
	return sent
}

func (x *tenant) upgradeRefused(t session.Token, sent time.Duration, err error) {
	x.w.record.Add(history.Event{
		Kind: history.Refused, Who: x.name, ID: t.ID, Attachment: t.Attachment, Local: t.Local, Sent: sent,
		Op: history.Upgrade, Unknown: true, Text: err.Error(),
	})
}

// longest is the longest timeout that a tenant asks for.
const longest = 10 * time.Second

// vanish repeats until ctx ends: it opens local sessions, upgrades one, and is cut off until they are gone, sometimes
// just after the request to upgrade. patient bounds the last wait.
func (x *tenant) vanish(ctx, patient context.Context) {
	for ctx.Err() == nil {
		x.open(ctx, 30*time.Second)
		lifted := x.open(ctx, 30*time.Second)
		sleep(ctx, x.between(time.Second, 10*time.Second))
		if lifted != nil {
			x.upgrade(ctx, lifted, x.between(time.Millisecond, 3*time.Second), 1)
		}
		reported := x.draw(2) == 0
		x.silence(func() {
			x.fallSilent()
			sleep(patient, longest+2*time.Second)
			if !reported {
				x.stop()
			}
			for _, n := range x.w.names {
				// Without this, a request from the time of the cut would still arrive, and touch a session that lives
				// longer because of a fail-over.
				x.w.Reset(x.name, n)
			}
		})
		if reported {
			x.awaitEnds(patient)
			x.stop()
		}
		x.start(x.w.Host(x.name))
	}
}

// keeper is a ghost that keeps the tokens of local sessions for longer than they are good, and upgrades by token.
type keeper struct{ *ghost }

// haunt uses one local session after the other until ctx ends. It resumes the session at its node, upgrades it, resumes
// it at another node, and touches and closes it with each token that it ever had.
func (k *keeper) haunt(ctx context.Context) {
	for ctx.Err() == nil {
		now := k.open(ctx, client.SessionOptions{
			Timeout: ghostTimeout, Local: true, Labels: k.w.labels(k.name),
		})
		if now == nil {
			sleep(ctx, time.Second)
			continue
		}
		k.keep(ctx, now, nil, k.between(time.Second, 8*time.Second))
		first := *now
		if k.resumeAt(ctx, now, now.node) {
			k.keep(ctx, now, &first, k.between(time.Second, 4*time.Second))
			k.close(ctx, &first)
		}
		if k.rand.IntN(4) > 0 {
			k.rise(ctx, now, &first)
		}
		if k.rand.IntN(3) == 0 {
			k.close(ctx, now)
		}
		k.w.record.Add(k.event(history.Silent, now.token, 0, time.Time{}))
	}
}

// rise upgrades the session and continues with the token of the local one, also while the session is resumed at another
// node.
func (k *keeper) rise(ctx context.Context, now, first *grip) {
	local := *now
	if !k.lift(ctx, now) {
		k.keep(ctx, now, nil, k.between(time.Second, 5*time.Second))
		return
	}
	k.keep(ctx, now, &local, k.between(time.Second, 4*time.Second))
	k.touch(ctx, first)
	if !k.resume(ctx, now) {
		return
	}
	k.keep(ctx, now, &local, k.between(time.Second, 5*time.Second))
	k.close(ctx, &local)
	k.close(ctx, first)
}

// lift makes the session global, and stores its token.
func (k *keeper) lift(ctx context.Context, h *grip) bool {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sent := k.w.record.Now()
	k.w.record.Add(k.event(history.UpgradeSent, h.token, 0, time.Time{}))
	u, err := k.touchers[h.node].UpgradeToken(ctx, h.token)
	if err != nil {
		k.refused(h, h.node, sent, history.Upgrade, err)
		return false
	}
	k.w.record.Add(k.w.upgraded(k.name, u, sent))
	h.token, h.since = u.Token, sent
	return true
}
