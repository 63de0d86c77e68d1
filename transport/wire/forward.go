package wire

import (
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
)

// ForwardHelloProto returns the first message of a Forward stream.
func ForwardHelloProto(clusterID string, h session.ForwardHello) *peerv1.ForwardRequest {
	return &peerv1.ForwardRequest{Message: &peerv1.ForwardRequest_Hello{Hello: &peerv1.ForwardHello{
		ClusterId: clusterID, Node: uint32(h.Node), Incarnation: h.Incarnation, Term: h.Term,
	}}}
}

// ForwardHelloFrom returns the cluster id and the rest of a Forward stream's first message.
func ForwardHelloFrom(m *peerv1.ForwardRequest) (string, session.ForwardHello, error) {
	h := m.GetHello()
	if h == nil {
		return "", session.ForwardHello{}, &session.FieldError{Field: "message", Limit: "a hello first"}
	}
	node, err := NodeFrom("hello.node", h.GetNode())
	switch id := h.GetClusterId(); {
	case err != nil:
	case id == "" || len(id) > maxClusterID:
		err = &session.FieldError{Field: "hello.cluster_id", Limit: fmt.Sprintf("1 to %d bytes", maxClusterID)}
	case h.GetTerm() == 0:
		err = &session.FieldError{Field: "hello.term", Limit: notZero}
	}
	if err != nil {
		return "", session.ForwardHello{}, err
	}
	return h.GetClusterId(), session.ForwardHello{Node: node, Incarnation: h.GetIncarnation(), Term: h.GetTerm()}, nil
}

// ForwardWelcomeProto returns the leader's first message.
func ForwardWelcomeProto(term uint64) *peerv1.ForwardResponse {
	return &peerv1.ForwardResponse{Message: &peerv1.ForwardResponse_Welcome{Welcome: &peerv1.ForwardWelcome{Term: term}}}
}

// ForwardWelcomeFrom returns the term in the leader's first message.
func ForwardWelcomeFrom(m *peerv1.ForwardResponse) (term uint64, err error) {
	if m.GetWelcome().GetTerm() == 0 {
		return 0, &session.FieldError{Field: "welcome.term", Limit: notZero}
	}
	return m.GetWelcome().GetTerm(), nil
}

// ForwardProto returns a node's message after its hello. The bytes of commands are shared.
func ForwardProto(m session.ForwardMessage) *peerv1.ForwardRequest {
	if len(m.Acknowledged) > 0 {
		p := &peerv1.Acknowledgements{}
		for _, one := range m.Acknowledged {
			p.Sessions, p.UpTo = append(p.Sessions, uint64(one.Session)), append(p.UpTo, one.UpTo)
		}
		return &peerv1.ForwardRequest{Message: &peerv1.ForwardRequest_Acknowledgements{Acknowledgements: p}}
	}
	p := &peerv1.Writes{Writes: make([]*peerv1.ForwardedWrite, len(m.Writes))}
	for i, w := range m.Writes {
		p.Writes[i] = &peerv1.ForwardedWrite{
			Command: w.Command, Weight: w.Weight, Session: uint64(w.Session), Number: w.Number, Trace: w.Trace.Bytes(),
			Connection: w.Connection, Principal: w.Principal,
		}
	}
	return &peerv1.ForwardRequest{Message: &peerv1.ForwardRequest_Writes{Writes: p}}
}

// ForwardFrom returns a node's message after its hello, with all fields checked for their ranges. It does not read the
// contents of commands (W2 the state decides).
func ForwardFrom(m *peerv1.ForwardRequest) (session.ForwardMessage, error) {
	switch m := m.GetMessage().(type) {
	case *peerv1.ForwardRequest_Writes:
		writes, err := forwardedFrom(m.Writes.GetWrites())
		return session.ForwardMessage{Writes: writes}, err
	case *peerv1.ForwardRequest_Acknowledgements:
		all, err := acknowledgedFrom(m.Acknowledgements)
		return session.ForwardMessage{Acknowledged: all}, err
	default:
		return session.ForwardMessage{},
			&session.FieldError{Field: "message", Limit: "writes or acknowledgements, after one hello"}
	}
}

func forwardedFrom(all []*peerv1.ForwardedWrite) ([]session.ForwardedWrite, error) {
	if len(all) == 0 || len(all) > session.MaxPeerBatch {
		return nil, &session.FieldError{Field: "writes", Limit: fmt.Sprintf("1 to %d", session.MaxPeerBatch)}
	}
	writes, bytes := make([]session.ForwardedWrite, len(all)), 0
	for i, p := range all {
		size := len(p.GetCommand())
		bytes += size
		field, limit := "", ""
		switch {
		case size == 0 || size > session.MaxCommandBytes:
			field, limit = "command", fmt.Sprintf("1 to %d bytes", session.MaxCommandBytes)
		case p.GetWeight() == 0:
			field, limit = "weight", "1 or more"
		case p.GetSession() == 0:
			field, limit = "session", notZero
		case p.GetNumber() == 0:
			field, limit = "number", "1 or more"
		}
		if field != "" {
			return nil, &session.FieldError{Field: fmt.Sprintf("writes[%d].%s", i, field), Limit: limit}
		}
		writes[i] = session.ForwardedWrite{
			Command: p.GetCommand(), Weight: p.GetWeight(), Session: session.ID(p.GetSession()), Number: p.GetNumber(),
			Connection: p.GetConnection(), Principal: p.GetPrincipal(), Trace: session.TraceFrom(p.GetTrace()),
		}
	}
	if len(all) > 1 && bytes > session.MaxForwardBytes {
		return nil, &session.FieldError{
			Field: "writes", Limit: fmt.Sprintf("at most %d bytes of commands, or one command", session.MaxForwardBytes),
		}
	}
	return writes, nil
}

func acknowledgedFrom(p *peerv1.Acknowledgements) ([]session.Acknowledged, error) {
	ids, err := idsFrom("acknowledgements.sessions", p.GetSessions(), session.MaxPeerBatch)
	switch {
	case err != nil:
		return nil, err
	case len(ids) == 0:
		return nil, &session.FieldError{
			Field: "acknowledgements.sessions", Limit: fmt.Sprintf("1 to %d", session.MaxPeerBatch),
		}
	case len(p.GetUpTo()) != len(ids):
		return nil, &session.FieldError{
			Field: "acknowledgements.up_to", Limit: fmt.Sprintf("as many as sessions, %d", len(ids)),
		}
	}
	all := make([]session.Acknowledged, len(ids))
	for i, id := range ids {
		if all[i] = (session.Acknowledged{Session: id, UpTo: p.GetUpTo()[i]}); all[i].UpTo == 0 {
			return nil, &session.FieldError{Field: fmt.Sprintf("acknowledgements.up_to[%d]", i), Limit: "1 or more"}
		}
	}
	return all, nil
}

// WriteRefusalsProto returns refusals of writes, 1 to [session.MaxPeerBatch].
func WriteRefusalsProto(all []session.WriteRefusal) *peerv1.ForwardResponse {
	p := &peerv1.WriteRefusals{Refusals: make([]*peerv1.WriteRefusal, len(all))}
	for i, one := range all {
		p.Refusals[i] = &peerv1.WriteRefusal{
			Session: uint64(one.Session), Number: one.Number, Reason: peerv1.WriteRefusalReason(one.Why),
		}
		if one.RetryAfter > 0 {
			p.Refusals[i].RetryAfter = durationpb.New(min(one.RetryAfter, session.MaxRetryAfter))
		}
	}
	return &peerv1.ForwardResponse{Message: &peerv1.ForwardResponse_Refusals{Refusals: p}}
}

// WriteRefusalsFrom returns the refusals in a leader's message after its welcome.
func WriteRefusalsFrom(m *peerv1.ForwardResponse) ([]session.WriteRefusal, error) {
	refusals := m.GetRefusals().GetRefusals()
	if len(refusals) == 0 || len(refusals) > session.MaxPeerBatch {
		return nil, &session.FieldError{Field: "refusals", Limit: fmt.Sprintf("1 to %d", session.MaxPeerBatch)}
	}
	all := make([]session.WriteRefusal, len(refusals))
	for i, p := range refusals {
		field := fmt.Sprintf("refusals[%d]", i)
		wait, err := DurationFrom(field+".retry_after", p.GetRetryAfter(), NotNegative)
		switch reason := p.GetReason(); {
		case err != nil:
		case p.GetSession() == 0:
			err = &session.FieldError{Field: field + ".session", Limit: notZero}
		case p.GetNumber() == 0:
			err = &session.FieldError{Field: field + ".number", Limit: "1 or more"}
		case reason <= 0 || reason > peerv1.WriteRefusalReason_WRITE_REFUSAL_REASON_STOPPING:
			err = &session.FieldError{Field: field + ".reason", Limit: "a reason that this version knows"}
		case wait > session.MaxRetryAfter:
			err = &session.FieldError{Field: field + ".retry_after", Limit: "at most " + session.MaxRetryAfter.String()}
		}
		if err != nil {
			return nil, err
		}
		all[i] = session.WriteRefusal{
			Session: session.ID(p.GetSession()), Number: p.GetNumber(), Why: session.WriteRefusalReason(p.GetReason()),
			RetryAfter: wait,
		}
	}
	return all, nil
}
