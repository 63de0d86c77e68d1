package session

import "time"

// Request is what a node asks of the leader on behalf of a client: exactly one body is set.
type Request struct {
	// Seq identifies the request on its stream.
	Seq    uint64
	Open   *OpenRequest
	Resume *ResumeRequest
	Close  *Token
	Read   *ReadRequest
	Claim  *ClaimRequest
	// Upgrade comes from the node of the session's id only.
	Upgrade *UpgradeRequest
	// Resumes moves many sessions at once.
	Resumes *ResumesRequest
	// Explain asks what keeps a session alive, and Kill ends sessions for an operator.
	Explain ID
	Kill    *KillRequest
	// Freeze and Extend are as Kill.
	Freeze *FreezeRequest
	Extend *ExtendRequest
	// Soonest asks which sessions are soonest to expire, as Explain.
	Soonest *SoonestRequest
	// Release says that the connection which resumed some sessions has ended (M7).
	Release []Release
	// Trace is the request's place in a trace, nil if it is in none.
	Trace *Trace
}

// OpenRequest asks for a session.
type OpenRequest struct {
	RequestID RequestID
	// Timeout is the wanted timeout; the leader negotiates it.
	Timeout time.Duration
	Labels  Labels
	// MS is the wall clock of the node that received the open, in milliseconds since [Epoch].
	MS uint64
	// Local asks for a session that the node alone knows. Such an open never goes to the leader.
	Local bool
	// Instance is the client process that opens the session (X5), 0 from a client that does not say. A session without an
	// instance may not write before its first resume.
	Instance uint64
}

// ResumeRequest moves a session to the node that asks (M1).
type ResumeRequest struct {
	// Token names the session's present attachment. It may name an older one if Instance resumed the session last.
	Token Token
	// Instance is 64 random bits of the client process. Attempt counts its resumes of the session from 1.
	Instance, Attempt uint64
	// Seen is the highest index that the client has seen (N4). The node itself waits for it; the leader never gets it.
	Seen uint64
}

// ReadRequest asks for an index to read at (R4), and for the remaining time of sessions.
type ReadRequest struct{ Remaining []ID }

// ClaimRequest asks for a block of ids of the node that asks.
type ClaimRequest struct {
	// MS is the wall clock of that node, in milliseconds since [Epoch].
	MS    uint64
	Count uint32
}

// UpgradeRequest asks for the upgrade of a session of the node that asks. Its fields are those of [UpgradeSession].
type UpgradeRequest UpgradeSession

// MaxReleases is the number of releases in one request.
const MaxReleases = 1000

// Release names a session that a connection had, and the attachment that its resume made.
type Release struct {
	ID         ID
	Attachment uint64
}

// Reply answers a [Request].
type Reply struct {
	Seq uint64
	// Term and Index are those of the entry that did what was asked. After a read, and with [ErrExpired], Index is the
	// index to wait for.
	Term, Index uint64
	// Session is set after an open, a resume and an upgrade, as of the entry.
	Session Session
	// Repeated says that an earlier entry did what was asked, see [Result].
	Repeated bool
	// Moved is set after [ResumesRequest] and [KillRequest], in their order. Sessions that were refused have their errors
	// there. After a KillRequest the attachments are those of the sessions that were ended.
	Moved []MoveResult
	// First is the first id of a claimed block.
	First ID
	// Remaining is in the order of the [ReadRequest]; negative for a session that the tracker does not know.
	Remaining []time.Duration
	// Soonest is set after a [SoonestRequest], and Remaining is in its order.
	Soonest []ID
	// Vigil is set after Explain.
	Vigil *Vigil
	// Err is a domain error when the request was refused.
	Err error
}
