package wire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// maxClusterID bounds a cluster id in bytes.
const maxClusterID = 255

// HelloProto returns the first message of a learner.
func HelloProto(clusterID string, h session.Hello) *peerv1.LearnerMessage {
	return &peerv1.LearnerMessage{Message: &peerv1.LearnerMessage_Hello{Hello: &peerv1.Hello{
		ClusterId: clusterID, Node: uint32(h.Node), Incarnation: h.Incarnation, Stream: h.Stream,
		Directory: h.Directory, Format: session.PeerFormat,
	}}}
}

// HelloFrom returns the cluster id and the rest of a stream's first message.
func HelloFrom(m *peerv1.LearnerMessage) (string, session.Hello, error) {
	h := m.GetHello()
	if h == nil {
		return "", session.Hello{}, &session.FieldError{Field: "message", Limit: "a hello first"}
	}
	if err := peerFormat("hello.format", h.GetFormat()); err != nil {
		return "", session.Hello{}, err
	}
	node, err := NodeFrom("hello.node", h.GetNode())
	if err != nil {
		return "", session.Hello{}, err
	}
	if id := h.GetClusterId(); id == "" || len(id) > maxClusterID {
		return "", session.Hello{},
			&session.FieldError{Field: "hello.cluster_id", Limit: fmt.Sprintf("1 to %d bytes", maxClusterID)}
	}
	return h.GetClusterId(), session.Hello{
		Node: node, Directory: h.GetDirectory(), Incarnation: h.GetIncarnation(), Stream: h.GetStream(),
	}, nil
}

// peerFormat refuses a node with another message format than this one.
func peerFormat(field string, found uint32) error {
	if found == session.PeerFormat {
		return nil
	}
	return &session.FieldError{Field: field, Limit: fmt.Sprintf("%d, which this node speaks, and not %d: run one release "+
		"on all nodes", session.PeerFormat, found)}
}

// LearnerProto returns an answer of a learner, see [SendLearner].
func LearnerProto(m session.LearnerMessage) (*peerv1.LearnerMessage, error) {
	switch {
	case m.Answer != nil:
		return &peerv1.LearnerMessage{Message: &peerv1.LearnerMessage_Answer{Answer: &peerv1.Answer{
			Round:      m.Answer.Round,
			Term:       m.Answer.Term,
			Attachment: m.Answer.Attachment,
			StallAge:   durationpb.New(max(m.Answer.StallAge, 0)),
			ProcessAge: durationpb.New(max(m.Answer.ProcessAge, 0)),
			Credit:     durationpb.New(max(m.Answer.Credit, 0)),
			Touches:    m.Answer.Touches,
			Last:       m.Answer.Last,
			Applied:    m.Answer.Applied,

			Draining: m.Answer.Draining,
			FullDisk: m.Answer.FullDisk,

			DigestIndex: m.Answer.Digest.Index,
			Digest:      digestBytes(m.Answer.Digest),
		}}}, nil
	default:
		return nil, &session.FieldError{Field: "message", Limit: "answer or requests"}
	}
}

// LearnerFrom returns a message of a learner after its hello. The reader of the touches of an answer checks them.
func LearnerFrom(m *peerv1.LearnerMessage) (session.LearnerMessage, error) {
	switch m := m.GetMessage().(type) {
	case *peerv1.LearnerMessage_Answer:
		a, err := AnswerFrom(m.Answer)
		if err != nil {
			return session.LearnerMessage{}, Within("answer", err)
		}
		return session.LearnerMessage{Answer: a}, nil
	case *peerv1.LearnerMessage_Requests:
		all, err := requestsFrom(m.Requests)
		return session.LearnerMessage{Requests: all}, err
	default:
		return session.LearnerMessage{},
			&session.FieldError{Field: "message", Limit: "answer or requests, after one hello"}
	}
}

// AnswerFrom returns a chunk of an answer.
func AnswerFrom(p *peerv1.Answer) (*session.Answer, error) {
	stallAge, err := DurationFrom("stall_age", p.GetStallAge(), NotNegative)
	if err != nil {
		return nil, err
	}
	process, err := DurationFrom("process_age", p.GetProcessAge(), NotNegative)
	if err != nil {
		return nil, err
	}
	credit, err := DurationFrom("credit", p.GetCredit(), NotNegative)
	if err != nil {
		return nil, err
	}
	digest, err := digestFrom("digest", p.GetDigestIndex(), p.GetDigest())
	if err != nil {
		return nil, err
	}
	return &session.Answer{
		Round:      p.GetRound(),
		Term:       p.GetTerm(),
		Attachment: p.GetAttachment(),
		StallAge:   stallAge,
		ProcessAge: process,
		Credit:     credit,
		Touches:    p.GetTouches(),
		Last:       p.GetLast(),
		Applied:    p.GetApplied(),
		Digest:     digest,
		Draining:   p.GetDraining(),
		FullDisk:   p.GetFullDisk(),
	}, nil
}

const requestBodies = "open, resume, close, read, claim, upgrade, resumes, explain, kill, freeze, extend, soonest " +
	"or release"

func requestProto(r *session.Request) (*peerv1.Request, error) {
	p := &peerv1.Request{Seq: r.Seq}
	switch {
	case r.Open != nil:
		open := &peerv1.OpenRequest{
			RequestId: r.Open.RequestID[:],
			Ms:        int64(min(r.Open.MS, math.MaxInt64)),
			Instance:  r.Open.Instance,
		}
		open.Timeout, open.Labels = peerSpecProto(&r.Open.Spec)
		p.Body = &peerv1.Request_Open{Open: open}
	case r.Resume != nil:
		p.Body = &peerv1.Request_Resume{Resume: &peerv1.ResumeRequest{
			Token: TokenProto(r.Resume.Token), Instance: r.Resume.Instance, Attempt: r.Resume.Attempt,
		}}
	case r.Close != nil:
		p.Body = &peerv1.Request_Close{Close: &peerv1.CloseRequest{Token: TokenProto(*r.Close)}}
	case r.Read != nil:
		read := &peerv1.ReadRequest{Remaining: make([]uint64, len(r.Read.Remaining))}
		for i, id := range r.Read.Remaining {
			read.Remaining[i] = uint64(id)
		}
		p.Body = &peerv1.Request_Read{Read: read}
	case r.Claim != nil:
		p.Body = &peerv1.Request_Claim{
			Claim: &peerv1.ClaimRequest{Ms: int64(min(r.Claim.MS, math.MaxInt64)), Count: r.Claim.Count},
		}
	case r.Upgrade != nil:
		p.Body = &peerv1.Request_Upgrade{Upgrade: upgradeProto(r.Upgrade)}
	case r.Resumes != nil:
		p.Body = &peerv1.Request_Resumes{Resumes: resumesProto(r.Resumes)}
	case r.Explain != 0:
		p.Body = &peerv1.Request_Explain{Explain: &peerv1.ExplainRequest{SessionId: uint64(r.Explain)}}
	case r.Kill != nil:
		p.Body = &peerv1.Request_Kill{Kill: killProto(r.Kill)}
	case r.Freeze != nil:
		p.Body = &peerv1.Request_Freeze{Freeze: freezeProto(r.Freeze)}
	case r.Extend != nil:
		p.Body = &peerv1.Request_Extend{Extend: extendProto(r.Extend)}
	case r.Soonest != nil:
		p.Body = &peerv1.Request_Soonest{Soonest: soonestProto(r.Soonest)}
	case r.Release != nil:
		p.Body = &peerv1.Request_Release{Release: releaseProto(r.Release)}
	default:
		return nil, &session.FieldError{Field: "request", Limit: requestBodies}
	}
	return p, nil
}

func requestFrom(p *peerv1.Request) (*session.Request, error) {
	r := &session.Request{Seq: p.GetSeq(), Trace: session.TraceFrom(p.GetTrace())}
	var err error
	switch b := p.GetBody().(type) {
	case *peerv1.Request_Open:
		r.Open, err = PeerOpenFrom(b.Open)
	case *peerv1.Request_Resume:
		var resume session.ResumeRequest
		resume, err = resumeFrom(b.Resume)
		r.Resume = &resume
	case *peerv1.Request_Close:
		var token session.Token
		token, err = TokenFrom(b.Close.GetToken())
		r.Close = &token
	case *peerv1.Request_Read:
		read := &session.ReadRequest{}
		read.Remaining, err = idsFrom("remaining", b.Read.GetRemaining(), session.MaxPage)
		r.Read = read
	case *peerv1.Request_Claim:
		r.Claim = &session.ClaimRequest{MS: uint64(max(b.Claim.GetMs(), 0)), Count: b.Claim.GetCount()}
		err = session.CheckClaim(r.Claim.Count)
	case *peerv1.Request_Upgrade:
		r.Upgrade, err = upgradeFrom(b.Upgrade)
	case *peerv1.Request_Resumes:
		r.Resumes, err = resumesFrom(b.Resumes)
	case *peerv1.Request_Explain:
		r.Explain, err = explainFrom(b.Explain)
	case *peerv1.Request_Kill:
		r.Kill, err = peerKillFrom(b.Kill)
	case *peerv1.Request_Freeze:
		r.Freeze, err = peerFreezeFrom(b.Freeze)
	case *peerv1.Request_Extend:
		r.Extend, err = peerExtendFrom(b.Extend)
	case *peerv1.Request_Soonest:
		r.Soonest, err = soonestFrom(b.Soonest)
	case *peerv1.Request_Release:
		r.Release, err = releaseFrom(b.Release)
	default:
		err = &session.FieldError{Field: "body", Limit: requestBodies}
	}
	return r, err
}

func releaseProto(all []session.Release) *peerv1.ReleaseRequest {
	p := &peerv1.ReleaseRequest{}
	for _, r := range all {
		p.SessionIds, p.Attachments = append(p.SessionIds, uint64(r.ID)), append(p.Attachments, r.Attachment)
	}
	return p
}

func releaseFrom(p *peerv1.ReleaseRequest) ([]session.Release, error) {
	ids, err := idsFrom("session_ids", p.GetSessionIds(), session.MaxReleases)
	switch {
	case err != nil:
		return nil, err
	case len(ids) == 0:
		return nil, &session.FieldError{Field: "session_ids", Limit: "at least 1"}
	case len(p.GetAttachments()) != len(ids):
		return nil, &session.FieldError{Field: "attachments", Limit: "as many as session_ids"}
	}
	all := make([]session.Release, len(ids))
	for i, id := range ids {
		all[i] = session.Release{ID: id, Attachment: p.GetAttachments()[i]}
	}
	return all, nil
}

// PeerOpenFrom returns a learner's request for a session.
func PeerOpenFrom(p *peerv1.OpenRequest) (*session.OpenRequest, error) {
	id, err := requestIDFrom("request_id", p.GetRequestId())
	if err != nil {
		return nil, err
	}
	spec, err := peerSpecFrom(p)
	// A clock before the epoch counts as 0 (O1 ids from the log).
	return &session.OpenRequest{
		RequestID: id, Spec: spec, MS: uint64(max(p.GetMs(), 0)), Instance: p.GetInstance(),
	}, err
}

// LeaderProto returns a welcome or a heartbeat, see [SendLeader].
func LeaderProto(m session.LeaderMessage) (*peerv1.LeaderMessage, error) {
	switch {
	case m.Welcome != nil:
		return &peerv1.LeaderMessage{Message: &peerv1.LeaderMessage_Welcome{Welcome: &peerv1.Welcome{
			Term: m.Welcome.Term, Leader: uint32(m.Welcome.Leader), Format: session.PeerFormat,
		}}}, nil
	case m.Heartbeat != nil:
		h := &peerv1.Heartbeat{
			Round:            m.Heartbeat.Round,
			Good:             m.Heartbeat.Good,
			Confirmed:        m.Heartbeat.Confirmed,
			Processed:        m.Heartbeat.Processed,
			Attachment:       m.Heartbeat.Attachment,
			VotesFrom:        m.Heartbeat.VotesFrom,
			Compare:          m.Heartbeat.Compare,
			Compared:         comparisonProto(m.Heartbeat.Compared),
			Committed:        m.Heartbeat.Committed,
			AppliedElsewhere: m.Heartbeat.AppliedElsewhere,
			Interval:         durationpb.New(m.Heartbeat.Interval),
			Unreachable:      nodesProto(m.Heartbeat.Excluded.Unreachable),
			Draining:         nodesProto(m.Heartbeat.Excluded.Draining),
			FullDisks:        nodesProto(m.Heartbeat.Excluded.Full),
			DisksFull:        m.Heartbeat.DisksFull,
		}
		for _, id := range m.Heartbeat.RejectedTouches {
			h.RejectedTouches = append(h.RejectedTouches, uint64(id))
		}
		for _, one := range m.Heartbeat.Traced {
			h.Traced = append(h.Traced, &peerv1.Traced{Index: one.Index, Trace: one.Trace.Bytes()})
		}
		return &peerv1.LeaderMessage{Message: &peerv1.LeaderMessage_Heartbeat{Heartbeat: h}}, nil
	default:
		return nil, &session.FieldError{Field: "message", Limit: "welcome, heartbeat or replies"}
	}
}

// LeaderFrom returns a message of a leader, once all its fields are in their ranges.
func LeaderFrom(m *peerv1.LeaderMessage) (session.LeaderMessage, error) {
	switch m := m.GetMessage().(type) {
	case *peerv1.LeaderMessage_Welcome:
		leader, err := NodeFrom("welcome.leader", m.Welcome.GetLeader())
		if err == nil {
			err = peerFormat("welcome.format", m.Welcome.GetFormat())
		}
		return session.LeaderMessage{Welcome: &session.Welcome{Term: m.Welcome.GetTerm(), Leader: leader}}, err
	case *peerv1.LeaderMessage_Heartbeat:
		h := m.Heartbeat
		rejected, err := idsFrom("heartbeat.rejected_touches", h.GetRejectedTouches(), math.MaxInt)
		if err != nil {
			return session.LeaderMessage{}, err
		}
		interval, err := intervalFrom("heartbeat.interval", h.GetInterval())
		if err != nil {
			return session.LeaderMessage{}, err
		}
		excluded, err := excludedFrom(h)
		if err != nil {
			return session.LeaderMessage{}, err
		}
		compared, err := comparisonFrom(h.GetCompared())
		return session.LeaderMessage{Heartbeat: &session.Heartbeat{
			Interval:         interval,
			Round:            h.GetRound(),
			Good:             h.GetGood(),
			Confirmed:        h.GetConfirmed(),
			Processed:        h.GetProcessed(),
			RejectedTouches:  rejected,
			Attachment:       h.GetAttachment(),
			VotesFrom:        h.GetVotesFrom(),
			Compare:          h.GetCompare(),
			Compared:         compared,
			Committed:        h.GetCommitted(),
			AppliedElsewhere: h.GetAppliedElsewhere(),
			Excluded:         excluded,
			DisksFull:        h.GetDisksFull(),
			Traced:           tracedFrom(h.GetTraced()),
		}}, err
	case *peerv1.LeaderMessage_Replies:
		all, err := repliesFrom(m.Replies)
		return session.LeaderMessage{Replies: all}, err
	default:
		return session.LeaderMessage{}, &session.FieldError{Field: "message", Limit: "welcome, heartbeat or replies"}
	}
}

// intervalFrom returns the interval of a leader's rounds.
func intervalFrom(field string, p *durationpb.Duration) (time.Duration, error) {
	d, err := DurationFrom(field, p, NotNegative)
	if err == nil && (d < session.MinInterval || d > session.MaxInterval) {
		err = &session.FieldError{
			Field: field, Limit: fmt.Sprintf("must be %s to %s", session.MinInterval, session.MaxInterval),
		}
	}
	return d, err
}

// ReplyProto returns the reply to a request.
func ReplyProto(r *session.Reply) *peerv1.Reply {
	p := &peerv1.Reply{Seq: r.Seq, Term: r.Term, Index: r.Index, Repeated: r.Repeated, First: uint64(r.First)}
	if r.Session.ID != 0 {
		p.Session = SessionProto(r.Session)
	}
	if len(r.Moved) > 0 {
		p.Moved = movedProto(r.Moved)
	}
	if r.Vigil != nil {
		p.Vigil = VigilProto(r.Vigil)
	}
	for _, id := range r.Soonest {
		p.Soonest = append(p.Soonest, uint64(id))
	}
	for _, d := range r.Remaining {
		ms := int64(-1)
		if d >= 0 {
			ms = d.Milliseconds()
		}
		p.RemainingMs = append(p.RemainingMs, ms)
	}
	if r.Err != nil {
		p.Error, p.Message = replyError(r.Err)
	}
	return p
}

// replyError returns more to a peer than [Text] returns to a client, because the peer belongs to the cluster. If a
// context ended at the leader, the outcome is unknown for the learner.
func replyError(err error) (*holdfastv1.ErrorDetail, string) {
	d := Detail(err)
	if !Known(d.GetReason()) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		d = Detail(session.ErrOutcomeUnknown)
	}
	return d, err.Error()
}

// ReplyFrom returns the reply to a request.
func ReplyFrom(p *peerv1.Reply) (*session.Reply, error) {
	r := &session.Reply{
		Seq: p.GetSeq(), Term: p.GetTerm(), Index: p.GetIndex(), Repeated: p.GetRepeated(),
		First: session.ID(p.GetFirst()),
	}
	if p.GetSession() != nil {
		s, err := SessionFrom(p.GetSession())
		if err != nil {
			return nil, err
		}
		r.Session = s
	}
	if p.GetMoved() != nil {
		var err error
		if r.Moved, err = movedFrom(p.GetMoved()); err != nil {
			return nil, err
		}
	}
	if p.GetVigil() != nil {
		var err error
		if r.Vigil, err = VigilFrom(p.GetVigil()); err != nil {
			return nil, err
		}
	}
	if err := remainingFrom(p, r); err != nil {
		return nil, err
	}
	if p.GetError() != nil {
		r.Err = FromDetail(p.GetError(), p.GetMessage())
	}
	return r, nil
}
