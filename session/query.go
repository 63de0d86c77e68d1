package session

import "time"

// Query asks for a page of sessions.
type Query struct {
	// After is the last id of the previous page; 0 for the first page.
	After ID
	// Size is 1 to [MaxPage].
	Size   int
	Filter Filter
	// Soonest asks for the sessions with the least time left instead, the next to expire first, all on one page: After
	// is 0 and so is [Page].Next.
	Soonest bool
	Read    ReadOptions
}

// SoonestRequest asks for the sessions that match a filter and have the least time left, the next to expire first.
type SoonestRequest struct {
	// Size is the largest wanted number, 1 to [MaxPage].
	Size int
	// Filter selects global sessions, whatever its Scope.
	Filter Filter
}

// ReadOptions say what a read allows and demands. The zero value is a linearizable read.
type ReadOptions struct {
	// AllowReadOnly lets a read-only node answer from its applied state (N3 stale reads). Such an answer is marked as
	// applied.
	AllowReadOnly bool
	// Seen is the highest index that the client has seen: the node answers with no older state (N4 seen index).
	Seen uint64
}

// Filter matches the sessions that match all of its set fields. The zero Filter matches every session.
type Filter struct {
	// Owner is the session's owner; 0 matches any.
	Owner Node
	// Labels are labels that the session has. An empty value matches any value of the key.
	Labels Labels
	// OpenedAfter and OpenedBefore bound OpenedAt; zero means no bound.
	OpenedAfter, OpenedBefore time.Time
	// MinRemaining and MaxRemaining bound the time until expiry if the session stays silent; zero means no bound.
	MinRemaining, MaxRemaining time.Duration
	// Scope is a kind of session; 0 matches any.
	Scope Scope
}

// Scope is a kind of session.
type Scope uint8

// Scopes.
const (
	// ScopeGlobal is the scope of replicated sessions.
	ScopeGlobal Scope = iota + 1
	// ScopeLocal is the scope of sessions that only the contacted node knows.
	ScopeLocal
)

// Match reports whether s matches f, except for the remaining time, which only the leader knows.
func (f *Filter) Match(s *Session) bool {
	switch {
	case f.Scope == ScopeGlobal && s.Local,
		f.Scope == ScopeLocal && !s.Local,
		f.Owner != 0 && f.Owner != s.Owner,
		!f.OpenedAfter.IsZero() && s.OpenedAt.Before(f.OpenedAfter),
		!f.OpenedBefore.IsZero() && s.OpenedAt.After(f.OpenedBefore):
		return false
	}
	return f.Labels.within(s.Labels)
}

// MatchRemaining reports whether a remaining time matches f.
func (f *Filter) MatchRemaining(d time.Duration) bool {
	return (f.MinRemaining == 0 || d >= f.MinRemaining) && (f.MaxRemaining == 0 || d <= f.MaxRemaining)
}

// Page is one page of sessions.
type Page struct {
	Sessions []Listed
	// Next is the After of the next page; 0 on the last page.
	Next ID
	// Applied says that the node showed its applied state without asking a leader (N3).
	Applied bool
}

// Listed is a session with its remaining time.
type Listed struct {
	Session Session
	// Remaining is the time until expiry if the session stays silent, according to the leader; negative when unknown.
	Remaining time.Duration
	// Applied says that the node answered from its applied state without asking a leader (N3). Only [Service.Find] sets
	// it; [Service.List] sets Page.Applied.
	Applied bool
}
