package session

import (
	"context"
	"time"
)

// Administration is what a node offers operators. Safe for concurrent use.
type Administration interface {
	// Explain says what keeps a session alive. The error is an [ExpiredError], with the certificate if that is known,
	// when the session has ended. The read is linearizable, and shows no older state than the index seen (N4).
	Explain(ctx context.Context, id ID, seen uint64) (Session, Vigil, error)
	// Deaths returns one page of certificates, the newest end first. Each page is a linearizable read of its own.
	Deaths(ctx context.Context, q DeathQuery) (DeathPage, error)
	// Kill ends sessions, whoever has them. Each is ended or refused by itself.
	Kill(ctx context.Context, r KillRequest) ([]Killed, error)
	// Freeze has nothing expire in the whole cluster for a time, or ends that time (Y3). It returns the index of its
	// entry.
	Freeze(ctx context.Context, r FreezeRequest) (index uint64, err error)
	// Extend keeps a session for a time though it is silent (Y4). It returns the index of its entry. The error is an
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
	// By and Why are those of a [Story].
	By, Why string
}

// Killed is what became of one session of a [KillRequest].
type Killed struct {
	// Index is that of the entry that ended the session, 0 for a local session.
	Index uint64
	// Err says why the session was not ended.
	Err error
}

// Vigil is what keeps a session alive (E1), as of one moment.
type Vigil struct {
	// Leader decides when a global session ends, in Term, which it has led for Led. All are 0 for a local session.
	Leader Node
	Term   uint64
	Led    time.Duration
	// Remaining is the time until the session ends if it stays silent.
	Remaining time.Duration
	// LastTouchAge is the age of the newest touch that is known to who decides; negative if none is.
	LastTouchAge time.Duration
	// VouchedAge is the age of V(owner), negative for a local session.
	VouchedAge time.Duration
	// Credit is how much later the session is due because its owner stalled.
	Credit time.Duration
	// Silent is for how long the owner has been silent; 0 unless it counts as lost.
	Silent time.Duration
	// Closing says that an end of the session is on its way to the log.
	Closing bool
	// Credited is the time since the term began that counted against no session (A1).
	Credited time.Duration
	// Frozen is for how long nothing expires because an operator has frozen the cluster, 0 if it is not frozen (Y3).
	// Kept is for how long the session is kept because an operator has extended it, 0 if it is not (Y4). Remaining has
	// both in it.
	Frozen, Kept time.Duration
}

// DeathQuery asks for a page of certificates.
type DeathQuery struct {
	// Before is the [DeathPage.Next] of the page before; 0 for the first page.
	Before uint64
	// Size is 1 to [MaxPage].
	Size   int
	Filter DeathFilter
	// Seen is the highest index that the client has seen (N4).
	Seen uint64
}

// DeathFilter keeps the certificates that match all of its set fields.
type DeathFilter struct {
	// Cause is 0 for any, Owner as well.
	Cause Cause
	Owner Node
	// Labels are labels that the session had. An empty value matches any value of the key.
	Labels Labels
	// Since and Until bound EndedAt, which is before Until; zero is no bound.
	Since, Until time.Time
	// Local asks for the local sessions of the node; otherwise global ones are listed.
	Local bool
}

// Match reports whether c passes f.
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
	// Numbers are those of the certificates: any of them may be the Before of a query.
	Numbers []uint64
	// Next is the Before of the next page; 0 on the last page.
	Next uint64
	// Forgotten says that there were older ends, whose certificates are no longer kept.
	Forgotten bool
}
