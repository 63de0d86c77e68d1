package session

import (
	"context"
	"time"
)

// Administration is a node's service for operators. Safe for concurrent use.
type Administration interface {
	// Explain returns a session with the facts that keep it alive. The error is an [ExpiredError], with the certificate
	// if that is known, when the session has ended. The read is linearizable, and shows no older state than the index
	// seen (N4 seen index).
	Explain(ctx context.Context, id ID, seen uint64) (Session, Vigil, error)
	// Deaths returns one page of certificates, the newest end first. Each page is a linearizable read of its own.
	Deaths(ctx context.Context, q DeathQuery) (DeathPage, error)
	// Kill ends sessions of any owner. The outcome of each session is independent.
	Kill(ctx context.Context, r KillRequest) ([]Killed, error)
	// Freeze stops all expiry in the cluster for a time, or ends such a time (Y3 freeze). It returns the index of its
	// entry.
	Freeze(ctx context.Context, r FreezeRequest) (index uint64, err error)
	// Extend keeps a silent session alive for a time (Y4 extension). It returns the index of its entry. The error is an
	// [ExpiredError] when the session has ended, and a [FieldError] for a local session.
	Extend(ctx context.Context, r ExtendRequest) (index uint64, err error)
	// State is [Service.State].
	State() NodeState
}

// MaxKill is the number of sessions that one [KillRequest] ends.
const MaxKill = 256

// KillRequest ends sessions for an operator.
type KillRequest struct {
	// IDs are 1 to [MaxKill], each once.
	IDs []ID
	// By and Why are as in a [Story].
	By, Why string
}

// Killed is the outcome for one session of a [KillRequest].
type Killed struct {
	// Index is the index of the entry that ended the session, 0 for a local session.
	Index uint64
	// Err is the reason why the session was not ended, nil if it was.
	Err error
}

// Vigil is the set of facts that keep a session alive (E1 full timeout after a change of leader), as of one moment.
type Vigil struct {
	// Leader decides when a global session ends, in Term, which it has led for Led. All are 0 for a local session.
	Leader Node
	Term   uint64
	Led    time.Duration
	// Remaining is the time until the session ends if it stays silent.
	Remaining time.Duration
	// LastTouchAge is the age of the newest touch known to the leader, or to the node of a local session; negative for
	// none.
	LastTouchAge time.Duration
	// VouchedAge is the age of V(owner), negative for a local session.
	VouchedAge time.Duration
	// Credit is the time by which the session is due later because its owner stalled.
	Credit time.Duration
	// Silent is the time since the last contact with the owner; 0 unless the owner counts as lost.
	Silent time.Duration
	// Closing says that an end of the session is on its way to the log.
	Closing bool
	// Credited is the time since the term began that counted against no session (A1 accountable clock).
	Credited time.Duration
	// Frozen is the rest of the time in which nothing expires because an operator has frozen the cluster, 0 if it is
	// not frozen (Y3). Kept is the rest of the time for which an operator has extended the session, 0 for none (Y4).
	// Remaining includes both.
	Frozen, Kept time.Duration
}

// DeathQuery asks for a page of certificates.
type DeathQuery struct {
	// Before is the [DeathPage.Next] of the previous page; 0 for the first page.
	Before uint64
	// Size is 1 to [MaxPage].
	Size   int
	Filter DeathFilter
	// Seen is the highest index that the client has seen (N4).
	Seen uint64
}

// DeathFilter matches the certificates that match all of its set fields.
type DeathFilter struct {
	// Cause and Owner are 0 for any.
	Cause Cause
	Owner Node
	// Labels are labels that the session had. An empty value matches any value of the key.
	Labels Labels
	// Since and Until bound EndedAt, which is before Until; zero means no bound.
	Since, Until time.Time
	// Local asks for the local sessions of the node instead of the global ones.
	Local bool
}

// Match reports whether c matches f.
func (f *DeathFilter) Match(c *Certificate) bool {
	if f.Cause != 0 && f.Cause != c.Cause || f.Owner != 0 && f.Owner != c.Owner || c.EndedAt.Before(f.Since) ||
		!f.Until.IsZero() && !c.EndedAt.Before(f.Until) {
		return false
	}
	return f.Labels.within(c.Story.Labels)
}

// within reports whether all labels of l are among others. An empty value matches any value of its key.
func (l Labels) within(others Labels) bool {
	for _, one := range l {
		v, ok := others.Value(one.Key)
		if !ok || one.Value != "" && one.Value != v {
			return false
		}
	}
	return true
}

// DeathPage is one page of certificates.
type DeathPage struct {
	Certificates []Certificate
	// Numbers are the numbers of the certificates: any of them may be the Before of a query.
	Numbers []uint64
	// Next is the Before of the next page; 0 on the last page.
	Next uint64
	// Forgotten says that there were older ends, whose certificates are no longer kept.
	Forgotten bool
}
