package wire

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// FreezeFrom returns an operator's request to freeze the cluster.
func FreezeFrom(p *holdfastv1.FreezeExpiryRequest) (session.FreezeRequest, error) {
	span, err := spanFrom(p.GetFor())
	if err == nil && span == 0 {
		err = &session.FieldError{Field: "for", Limit: "above 0: ThawExpiry ends a freeze"}
	}
	return session.FreezeRequest{For: span, Why: p.GetWhy()}, cmp.Or(err, textFrom("why", p.GetWhy(), session.MaxWhy))
}

// ExtendFrom returns an operator's request to extend a session.
func ExtendFrom(p *holdfastv1.ExtendSessionRequest) (session.ExtendRequest, error) {
	id, err := IDFrom("session_id", p.GetSessionId())
	if err != nil {
		return session.ExtendRequest{}, err
	}
	span, err := spanFrom(p.GetFor())
	return session.ExtendRequest{ID: id, For: span}, err
}

// spanFrom returns the length of a freeze or of an extension.
func spanFrom(p *durationpb.Duration) (time.Duration, error) {
	d, err := DurationFrom("for", p, NotNegative)
	return d, cmp.Or(err, session.CheckSpan(d))
}

func freezeProto(r *session.FreezeRequest) *peerv1.FreezeRequest {
	return &peerv1.FreezeRequest{For: durationpb.New(r.For), By: r.By, Why: r.Why}
}

func peerFreezeFrom(p *peerv1.FreezeRequest) (*session.FreezeRequest, error) {
	span, err := spanFrom(p.GetFor())
	return &session.FreezeRequest{For: span, By: p.GetBy(), Why: p.GetWhy()}, cmp.Or(err,
		textFrom("by", p.GetBy(), session.MaxClientName), textFrom("why", p.GetWhy(), session.MaxWhy))
}

func extendProto(r *session.ExtendRequest) *peerv1.ExtendRequest {
	return &peerv1.ExtendRequest{SessionId: uint64(r.ID), For: durationpb.New(r.For)}
}

func peerExtendFrom(p *peerv1.ExtendRequest) (*session.ExtendRequest, error) {
	span, err := spanFrom(p.GetFor())
	if p.GetSessionId() == 0 {
		err = &session.FieldError{Field: "session_id", Limit: notZero}
	}
	return &session.ExtendRequest{ID: session.ID(p.GetSessionId()), For: span}, err
}

// FreezingProto returns a freeze with a rest of left in protocol buffers; nil for none.
func FreezingProto(f *session.Freeze, left time.Duration) *holdfastv1.Freezing {
	if f == nil {
		return nil
	}
	return &holdfastv1.Freezing{Left: durationpb.New(left), Since: timeProto(f.Since), By: f.By, Why: f.Why}
}

// FreezingFrom returns the freeze in p and its rest; nil for none. Its Until is 0, because only nodes have the running
// clock.
func FreezingFrom(p *holdfastv1.Freezing) (*session.Freeze, time.Duration, error) {
	if p == nil {
		return nil, 0, nil
	}
	left, err := DurationFrom("freezing.left", p.GetLeft(), NotNegative)
	if err != nil {
		return nil, 0, err
	}
	since, err := timeFrom("freezing.since", p.GetSince())
	return &session.Freeze{Since: since, By: p.GetBy(), Why: p.GetWhy()}, left, err
}
