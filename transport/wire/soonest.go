package wire

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
)

func soonestProto(r *session.SoonestRequest) *peerv1.SoonestRequest {
	f := &r.Filter
	return &peerv1.SoonestRequest{
		Size: uint32(r.Size), Owner: uint32(f.Owner), Labels: labelsProto(f.Labels), //nolint:gosec // at most MaxPage
		OpenedAfter: timeProto(f.OpenedAfter), OpenedBefore: timeProto(f.OpenedBefore),
		MinRemaining: durationpb.New(f.MinRemaining), MaxRemaining: durationpb.New(f.MaxRemaining),
	}
}

func soonestFrom(p *peerv1.SoonestRequest) (*session.SoonestRequest, error) {
	if p.GetSize() < 1 || p.GetSize() > session.MaxPage {
		return nil, &session.FieldError{Field: "size", Limit: fmt.Sprintf("1 to %d", session.MaxPage)}
	}
	r := &session.SoonestRequest{Size: int(p.GetSize())}
	f := &r.Filter
	var err error
	if p.GetOwner() != 0 {
		if f.Owner, err = NodeFrom("owner", p.GetOwner()); err != nil {
			return nil, err
		}
	}
	if f.Labels, err = labelsFrom(p.GetLabels()); err != nil {
		return nil, err
	}
	if f.OpenedAfter, err = timeFrom("opened_after", p.GetOpenedAfter()); err != nil {
		return nil, err
	}
	if f.OpenedBefore, err = timeFrom("opened_before", p.GetOpenedBefore()); err != nil {
		return nil, err
	}
	if f.MinRemaining, err = DurationFrom("min_remaining", p.GetMinRemaining(), NotNegative); err != nil {
		return nil, err
	}
	f.MaxRemaining, err = DurationFrom("max_remaining", p.GetMaxRemaining(), NotNegative)
	return r, err
}

// remainingFrom reads remaining times, and the ids of their sessions if these are not in the order of the request.
func remainingFrom(p *peerv1.Reply, r *session.Reply) error {
	if len(p.GetRemainingMs()) > session.MaxPage {
		return &session.FieldError{Field: "remaining_ms", Limit: fmt.Sprintf("at most %d", session.MaxPage)}
	}
	if len(p.GetSoonest()) > 0 {
		var err error
		if r.Soonest, err = idsFrom("soonest", p.GetSoonest(), len(p.GetRemainingMs())); err != nil {
			return err
		}
	}
	for _, ms := range p.GetRemainingMs() {
		d := Unknown
		if ms >= 0 {
			d = time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
		}
		r.Remaining = append(r.Remaining, d)
	}
	return nil
}
