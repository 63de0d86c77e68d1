package session

import "time"

// Request is a node's request to the leader on behalf of a client: exactly one body is set.
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
	// Explain asks for the facts that keep a session alive, and Kill ends sessions for an operator.
	Explain ID
	Kill    *KillRequest
	// Freeze and Extend are for an operator too.
	Freeze *FreezeRequest
	Extend *ExtendRequest
	// Soonest asks for the sessions that expire next, for an operator too.
	Soonest *SoonestRequest
	// Release says that the connection which resumed some sessions has ended (M7 no take-over from a living holder).
	Release []Release
	// Trace is the request's place in a trace, nil without one.
	Trace *Trace
}

// OpenRequest asks for a session.
type OpenRequest struct {
	RequestID RequestID
	Spec
	// MS is the wall clock of the node that received the open, in milliseconds since [Epoch].
	MS uint64
	// Local requests a session that only the node knows. The node serves such an open without the leader.
	Local bool
	// Instance is the client process that opens the session (X5 the opener's instance), 0 if the client does not name
	// it. A session without an instance may not write before its first resume.
	Instance uint64
}

// ResumeRequest moves a session to the requesting node (M1 a resume is a move).
type ResumeRequest struct {
	// Token names the session's present attachment. It may name an older one if the newest resume was by Instance.
	Token Token
	// Instance is 64 random bits of the client process. Attempt counts its resumes of the session from 1.
	Instance, Attempt uint64
	// Seen is the highest index that the client has seen (N4 seen index). The node itself waits for it, and does not
	// send it to the leader.
	Seen uint64
}

// ReadRequest asks for an index to read at (R4 leadership needs a good round), and for the remaining time of sessions.
type ReadRequest struct{ Remaining []ID }

// ClaimRequest asks for a block of ids of the requesting node.
type ClaimRequest struct {
	// MS is the wall clock of that node, in milliseconds since [Epoch].
	MS    uint64
	Count uint32
}

// UpgradeRequest asks for the upgrade of a session of the requesting node. Its fields are those of [UpgradeSession].
type UpgradeRequest UpgradeSession

// MaxReleases is the number of releases in one request.
const MaxReleases = 1000

// Release names a session of an ended connection, with the attachment that its resume made.
type Release struct {
	ID         ID
	Attachment uint64
}

// Reply answers a [Request].
type Reply struct {
	Seq uint64
	// Term and Index are the term and the index of the entry that carried out the request. After a read, and with
	// [ErrExpired], Index is the index to wait for.
	Term, Index uint64
	// Session is set after an open, a resume and an upgrade, as of the entry.
	Session Session
	// Repeated says that an earlier entry had already carried out the request, see [Result].
	Repeated bool
	// Moved is set after [ResumesRequest] and [KillRequest], in their order. Refused sessions have their errors there.
	// After a KillRequest the attachments are those of the ended sessions.
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
