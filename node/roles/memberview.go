package roles

import (
	"slices"
	"sync"

	"holdfast/leader"
	"holdfast/session"
)

// memberView is a view that tells of the members that a tracker finds, each time they are others. Safe for concurrent
// use.
type memberView struct {
	leader.View
	publish func([]session.Member)

	mu   sync.Mutex
	last []session.Member // guarded by mu
}

// Members returns what the view has.
func (v *memberView) Members() []session.Member {
	all := v.View.Members()
	v.mu.Lock()
	changed := len(all) > 0 && !slices.Equal(all, v.last)
	if changed {
		v.last = slices.Clone(all)
	}
	v.mu.Unlock()
	if changed {
		v.publish(all)
	}
	return all
}

// viewOf returns the view of a tracker of a term.
func (t *terms) viewOf(term uint64) leader.View {
	if t.cfg.Observers.Members == nil {
		return t.cfg.State
	}
	return &memberView{View: t.cfg.State, publish: func(all []session.Member) { t.cfg.Observers.Members(term, all) }}
}
