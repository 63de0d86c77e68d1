package wire

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// VigilProto returns v in protocol buffers.
func VigilProto(v *session.Vigil) *holdfastv1.Vigil {
	p := &holdfastv1.Vigil{
		Leader: uint32(v.Leader), Term: v.Term, Remaining: durationpb.New(v.Remaining),
		LastTouchAge: PromiseProto(v.LastTouchAge), VouchedAge: PromiseProto(v.VouchedAge),
		Credit: durationpb.New(v.Credit), Closing: v.Closing, Credited: durationpb.New(v.Credited),
	}
	if v.Leader != 0 {
		p.Led = durationpb.New(v.Led)
	}
	for _, one := range []struct {
		is time.Duration
		to **durationpb.Duration
	}{{v.Silent, &p.OwnerSilent}, {v.Frozen, &p.Frozen}, {v.Kept, &p.Kept}} {
		if one.is > 0 {
			*one.to = durationpb.New(one.is)
		}
	}
	return p
}

// VigilFrom returns the vigil in p. The error is a [session.FieldError] of "vigil".
func VigilFrom(p *holdfastv1.Vigil) (*session.Vigil, error) {
	if p == nil {
		return nil, &session.FieldError{Field: "vigil", Limit: session.Missing}
	}
	v := &session.Vigil{Term: p.GetTerm(), Closing: p.GetClosing()}
	var err error
	if p.GetLeader() != 0 {
		if v.Leader, err = NodeFrom("vigil.leader", p.GetLeader()); err != nil {
			return nil, err
		}
	}
	for _, one := range []struct {
		field string
		from  *durationpb.Duration
		to    *time.Duration
	}{
		{"vigil.led", p.GetLed(), &v.Led},
		{"vigil.remaining", p.GetRemaining(), &v.Remaining},
		{"vigil.credit", p.GetCredit(), &v.Credit},
		{"vigil.owner_silent", p.GetOwnerSilent(), &v.Silent},
		{"vigil.credited", p.GetCredited(), &v.Credited},
		{"vigil.frozen", p.GetFrozen(), &v.Frozen},
		{"vigil.kept", p.GetKept(), &v.Kept},
	} {
		if *one.to, err = DurationFrom(one.field, one.from, NotNegative); err != nil {
			return nil, err
		}
	}
	if v.LastTouchAge, err = OptionalDurationFrom("vigil.last_touch_age", p.GetLastTouchAge()); err != nil {
		return nil, err
	}
	v.VouchedAge, err = OptionalDurationFrom("vigil.vouched_age", p.GetVouchedAge())
	return v, err
}

// KillFrom returns an operator's request to end sessions.
func KillFrom(p *holdfastv1.KillSessionsRequest) (session.KillRequest, error) {
	ids, err := killedFrom(p.GetIds())
	if err == nil {
		err = textFrom("why", p.GetWhy(), session.MaxWhy)
	}
	return session.KillRequest{IDs: ids, Why: p.GetWhy()}, err
}

// killedFrom returns the sessions of a request to end sessions: 1 to [session.MaxKill], each once.
func killedFrom(all []uint64) ([]session.ID, error) {
	ids, err := idsFrom("ids", all, session.MaxKill)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, &session.FieldError{Field: "ids", Limit: fmt.Sprintf("1 to %d", session.MaxKill)}
	}
	sorted := slices.Sorted(slices.Values(ids))
	if len(slices.Compact(sorted)) < len(ids) {
		return nil, &session.FieldError{Field: "ids", Limit: "must name each session once"}
	}
	return ids, nil
}

// textFrom checks a text for people.
func textFrom(field, text string, limit int) error {
	if len(text) > limit || !utf8.ValidString(text) {
		return &session.FieldError{Field: field, Limit: fmt.Sprintf("at most %d bytes of UTF-8", limit)}
	}
	return nil
}

func killProto(r *session.KillRequest) *peerv1.KillRequest {
	p := &peerv1.KillRequest{Ids: make([]uint64, len(r.IDs)), By: r.By, Why: r.Why}
	for i, id := range r.IDs {
		p.Ids[i] = uint64(id)
	}
	return p
}

func peerKillFrom(p *peerv1.KillRequest) (*session.KillRequest, error) {
	ids, err := killedFrom(p.GetIds())
	if err == nil {
		err = textFrom("by", p.GetBy(), session.MaxClientName)
	}
	if err == nil {
		err = textFrom("why", p.GetWhy(), session.MaxWhy)
	}
	return &session.KillRequest{IDs: ids, By: p.GetBy(), Why: p.GetWhy()}, err
}

func explainFrom(p *peerv1.ExplainRequest) (session.ID, error) {
	if p.GetSessionId() == 0 {
		return 0, &session.FieldError{Field: "session_id", Limit: notZero}
	}
	return session.ID(p.GetSessionId()), nil
}

// DeathFilterFrom returns the filter of p. Errors name fields of p.
func DeathFilterFrom(p *holdfastv1.DeathFilter) (session.DeathFilter, error) {
	var f session.DeathFilter
	var err error
	if p == nil {
		return f, nil
	}
	if p.GetCause() != holdfastv1.Cause_CAUSE_UNSPECIFIED {
		if f.Cause = CauseFrom(p.GetCause()); f.Cause == 0 {
			return f, &session.FieldError{Field: "cause", Limit: "one that this program knows"}
		}
	}
	if p.GetOwner() != 0 {
		if f.Owner, err = NodeFrom("owner", p.GetOwner()); err != nil {
			return f, err
		}
	}
	if f.Labels, err = session.NewLabels(p.GetLabels()); err != nil {
		return f, err
	}
	switch p.GetScope() {
	case holdfastv1.Scope_SCOPE_UNSPECIFIED, holdfastv1.Scope_SCOPE_GLOBAL:
	case holdfastv1.Scope_SCOPE_LOCAL:
		f.Local = true
	default:
		return f, &session.FieldError{Field: "scope", Limit: "SCOPE_GLOBAL, SCOPE_LOCAL or unspecified"}
	}
	if f.Since, err = timeFrom("since", p.GetSince()); err != nil {
		return f, err
	}
	f.Until, err = timeFrom("until", p.GetUntil())
	return f, err
}

// DeathFilterProto returns f in protocol buffers.
func DeathFilterProto(f *session.DeathFilter) *holdfastv1.DeathFilter {
	p := &holdfastv1.DeathFilter{
		Cause: causeProto(f.Cause), Owner: uint32(f.Owner), Since: timeProto(f.Since), Until: timeProto(f.Until),
		Labels: labelMap(f.Labels),
	}
	if f.Local {
		p.Scope = holdfastv1.Scope_SCOPE_LOCAL
	}
	return p
}
