package core

import (
	"errors"
	"time"

	"holdfast/session"
)

// Errors that callers are told.
var (
	// ErrLapsed: the last promise of a session ran out.
	ErrLapsed = errors.New("promise has run out: the session may expire")
	// ErrHeld: the client holds the session already.
	ErrHeld = errors.New("client holds the session already")
	// ErrStalled: a node has not answered requests for too long, see [MaxSilence] and [AskAfter].
	ErrStalled = errors.New("requests are not answered")
)

// Why a node is left.
var (
	errSilent   = errors.New("promises are not renewed")
	errJeopardy = errors.New("node hears of no leader with a quorum")
	// errNoAddress: a name without addresses.
	errNoAddress = errors.New("name has no address")
	// errOvertaken: a resume of this client took effect after another one of it.
	errOvertaken = errors.New("resumed elsewhere by a late request of this client")
	// errRebalanced and errRemoved: a node is left without any fault of its own.
	errRebalanced = errors.New("other servers were added: this one has its share of clients without this one")
	errRemoved    = errors.New("server was removed from the list")
)

// Parts of a session's timeout T. The silence of a node is noticed T/3 after the sending of the last touch that it
// answered (see silence.go), and then two other nodes can be given T/4 each before T is over: 1/3 + 2/4 = 5/6. An
// attempt that does not even connect takes less: after T/24 the next one is made beside it.
const (
	hedgePart   = 24
	connectPart = 6
	tryPart     = 4
	// latePart is for a round after one that came to nothing: what was promised is used up, and going round faster than
	// nodes can answer helps nobody.
	latePart = 3
	// jeopardyPart is what a node that says it hears of no leader is given to serve all the same.
	jeopardyPart = 12
)

const (
	// lookEvery is how often a client that holds sessions looks for a suspension (S5).
	lookEvery = time.Second
	// Patience is how long a node that is tried may take to serve a client without sessions.
	Patience = 6 * time.Second
	// MaxSilence is how long the present node may say nothing while it owes answers to touches alone before another one
	// is tried. A frozen node closes nothing. Nobody waits for a touch, so a short stall need move no sessions.
	MaxSilence = 3 * time.Second
	// AskAfter is how long the present node may say nothing while it owes any other answer before it is asked for a sign
	// of life. An answer that waits for a leader may take longer, a sign of life needs none: so a frozen node is left,
	// and one that waits for the election of another leader is not.
	AskAfter = time.Second
	// watchSilence is how long a node that watches may say nothing before it is asked for a sign of life. It tells its
	// stamp each second (V5 of the tree).
	watchSilence = 3 * time.Second
	// SignWithin is how long a node has for a sign of life. With the default settings nodes elect another leader 1.5 s
	// after theirs has frozen: most clients that leave it find that leader.
	SignWithin = 750 * time.Millisecond
	// MaxPutOffs is how often a node that is tried may put off the same resume before another one is asked: its moments
	// mean little then.
	MaxPutOffs = 3
	// MaxTakeOvers is how often a refused take-over is repeated. Each refusal says that yet another process has resumed
	// the session.
	MaxTakeOvers = 10
	// A connection is brief that is left within briefly. After maxBrief in a row the client waits before the next one.
	briefly  = time.Second
	maxBrief = 5
	// lagRounds is how many rounds in which every node that answered was LAGGING have the index that was seen doubted.
	lagRounds = 2
)

// dead reports whether err, the answer to a resume or a touch, ends a session for its client. Anything else leaves the
// session alone: it is worth more than the Patience of one more try.
func dead(err error) bool {
	return errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrBadCredential) ||
		errors.Is(err, session.ErrMoved) || errors.Is(err, session.ErrInvalid)
}

// holder returns who has the session by the word of a refusal, 0 when that does not tell.
func holder(err error) uint64 {
	if now, ok := errors.AsType[*session.MovedError](err); ok {
		return now.Instance
	}
	return 0
}
