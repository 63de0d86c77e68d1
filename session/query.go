package session

import "time"

// Query asks for a page of sessions.
type Query struct {
	// After is the last id of the former page; 0 for the first page.
	After ID
	// Size is 1 to [MaxPage].
	Size   int
	Filter Filter
	Read   ReadOptions
}

// Filter keeps the sessions that match all that is set. The zero Filter keeps all.
type Filter struct {
	// Owner 0 is any.
	Owner Node
	// Labels the session has; an empty value matches any value of the key.
	Labels Labels
	// OpenedAfter and OpenedBefore bound OpenedAt; zero is no bound.
	OpenedAfter, OpenedBefore time.Time
	// MinRemaining and MaxRemaining bound the time until expiry if the session stays silent; zero is no bound.
	MinRemaining, MaxRemaining time.Duration
	// Scope is a kind of session; the zero Scope is any.
	Scope Scope
}

// Scope is a kind of session.
type Scope uint8

// Scopes.
const (
	// ScopeGlobal is that of replicated sessions.
	ScopeGlobal Scope = iota + 1
	// ScopeLocal is that of sessions which the node that is asked alone knows.
	ScopeLocal
)

// Match reports whether s passes all of f that can be told without the leader: everything but the remaining time.
func (f *Filter) Match(s *Session) bool {
	switch {
	case f.Scope == ScopeGlobal && s.Local,
		f.Scope == ScopeLocal && !s.Local,
		f.Owner != 0 && f.Owner != s.Owner,
		!f.OpenedAfter.IsZero() && s.OpenedAt.Before(f.OpenedAfter),
		!f.OpenedBefore.IsZero() && s.OpenedAt.After(f.OpenedBefore):
		return false
	}
	for _, l := range f.Labels {
		v, ok := s.Labels.Value(l.Key)
		if !ok || l.Value != "" && l.Value != v {
			return false
		}
	}
	return true
}

// MatchRemaining reports whether a remaining time passes f.
func (f *Filter) MatchRemaining(d time.Duration) bool {
	return (f.MinRemaining == 0 || d >= f.MinRemaining) && (f.MaxRemaining == 0 || d <= f.MaxRemaining)
}

// Page is one page of sessions.
type Page struct {
	Sessions []Listed
	// Next is the After of the next page; 0 on the last one.
	Next ID
	// Applied says that the node showed the state which it had applied, without a leader's word (N3).
	Applied bool
}

// Listed is a session as it is listed.
type Listed struct {
	Session Session
	// Remaining is the time until expiry if the session stays silent, as the leader sees it; negative when unknown.
	Remaining time.Duration
	// Applied says of one that was looked for alone what [Page] says of a page.
	Applied bool
}
