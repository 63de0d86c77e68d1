package conn

import (
	"errors"
	"time"
)

// ErrStalled means that a node has not answered requests for too long, see [MaxSilence] and [AskAfter].
var ErrStalled = errors.New("requests are not answered")

// Why the client leaves a node.
var (
	// ErrSilent: the node does not renew the promise of a session.
	ErrSilent = errors.New("promises are not renewed")
	// ErrJeopardy: the node knows no leader.
	ErrJeopardy = errors.New("node knows no leader with a quorum")
	// errNoAddress: a host name without addresses.
	errNoAddress = errors.New("name has no address")
	// errRebalanced and errRemoved: the node has no fault.
	errRebalanced = errors.New("other servers were added: this one has its share of clients without this one")
	errRemoved    = errors.New("server was removed from the list")
)

// Parts of a session's timeout T. The client leaves a silent node at the latest 5/12 T after it sent the last touch that
// was answered (see silence.go of package core/session). Two other nodes can then get T/4 each before T is over: 5/12 +
// 2/4 = 11/12. An attempt that does not even connect costs less: the next attempt starts in parallel after T/24.
const (
	hedgePart = 24
	// ConnectPart bounds an attempt to connect.
	ConnectPart = 6
	// TryPart is the time of a candidate to serve a request.
	TryPart = 4
	// latePart replaces TryPart after a round in which no node served: the promises are used up, and a round faster
	// than nodes can answer would be useless.
	latePart = 3
	// jeopardyPart is the time limit of a candidate that knows no leader.
	jeopardyPart = 12
)

const (
	// AnswerTimeout is the time of a candidate to serve a client without sessions.
	AnswerTimeout = 6 * time.Second
	// MaxSilence is how long the current node may send nothing while only answers to touches are pending. A frozen node
	// closes no stream. No caller waits for a touch, so a short stall need not move sessions.
	MaxSilence = 3 * time.Second
	// AskAfter is how long the current node may be silent while any other answer is pending. Then the client asks for a
	// sign of life. An answer that waits for a leader may take longer, but a sign of life needs no leader. So the
	// client leaves a frozen node, and stays at a node that waits for an election.
	AskAfter = time.Second
	// watchSilence is how long a node that watches may be silent before the client asks for a sign of life. A watching
	// node reports its stamp each second (V5 stamps for idle watchers).
	watchSilence = 3 * time.Second
	// SignWithin is the time limit of a sign of life. With the default settings nodes elect another leader 1 s after the
	// leader has frozen, so most clients that leave a frozen leader find the new leader.
	SignWithin = 500 * time.Millisecond
	// A connection is brief if the client leaves it within briefly. After maxBrief brief connections in a row the
	// client waits before the next connection.
	briefly  = time.Second
	maxBrief = 5
	// lagRounds is after how many rounds the client distrusts the index it has seen, if every node that answered was
	// LAGGING.
	lagRounds = 2
	// avoidFor is how long the client tries a node last that has sent the client away.
	avoidFor = time.Minute
)
