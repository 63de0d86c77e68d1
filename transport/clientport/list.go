package clientport

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// defaultPage is the page size of a request without one.
const defaultPage = 100

func queryFrom(req *holdfastv1.ListSessionsRequest) (session.Query, error) {
	size := cmp.Or(req.GetPageSize(), defaultPage)
	if size > session.MaxPage {
		return session.Query{}, pageSizeError()
	}
	after, err := pageTokenFrom(req.GetPageToken())
	if err != nil {
		return session.Query{}, err
	}
	soonest, err := orderFrom(req)
	if err != nil {
		return session.Query{}, err
	}
	filter, err := filterFrom(req.GetFilter(), time.Now())
	if err != nil {
		return session.Query{}, wire.Within("filter", err)
	}
	return session.Query{
		After: after, Size: int(size), Filter: filter, Soonest: soonest,
		Read: session.ReadOptions{AllowReadOnly: req.GetAllowReadOnly(), Seen: req.GetSeenIndex()},
	}, nil
}

// orderFrom reports whether the request asks for the sessions that expire soonest.
func orderFrom(req *holdfastv1.ListSessionsRequest) (soonest bool, err error) {
	switch req.GetOrder() {
	case holdfastv1.SessionOrder_SESSION_ORDER_UNSPECIFIED:
		return false, nil
	case holdfastv1.SessionOrder_SESSION_ORDER_REMAINING:
		if req.GetPageToken() != "" {
			err = &session.FieldError{Field: "page_token", Limit: "empty with SESSION_ORDER_REMAINING, which has one page"}
		}
		return true, err
	default:
		return false, &session.FieldError{Field: "order", Limit: "SESSION_ORDER_REMAINING or unspecified"}
	}
}

func pageSizeError() error {
	return &session.FieldError{
		Field: "page_size", Limit: fmt.Sprintf("1 to %d, 0 means %d", session.MaxPage, defaultPage),
	}
}

// pageProto returns a page for the wire. It cuts a page whose sessions have many labels, so that the answer stays below
// about [wire.DefaultMessageBytes]: clients refuse larger messages, and a page may always be shorter than requested.
func pageProto(page session.Page) *holdfastv1.ListSessionsResponse {
	answer := &holdfastv1.ListSessionsResponse{Sessions: make([]*holdfastv1.ListedSession, 0, len(page.Sessions))}
	next, size := page.Next, 0
	for _, l := range page.Sessions {
		listed := &holdfastv1.ListedSession{
			Session: wire.SessionProto(l.Session), Remaining: wire.PromiseProto(l.Remaining),
		}
		size += proto.Size(listed)
		if n := len(answer.Sessions); n > 0 && size > wire.DefaultMessageBytes {
			next = page.Sessions[n-1].Session.ID
			break
		}
		answer.Sessions = append(answer.Sessions, listed)
	}
	answer.NextPageToken = pageToken(next)
	return answer
}

// pageToken encodes the last id of a page, in a form that is opaque to clients.
func pageToken(last session.ID) string {
	if last == 0 {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(last)))
}

func pageTokenFrom(token string) (session.ID, error) {
	if token == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != 8 || binary.BigEndian.Uint64(b) == 0 {
		return 0, &session.FieldError{Field: "page_token", Limit: "the next_page_token of the former page"}
	}
	return session.ID(binary.BigEndian.Uint64(b)), nil
}

// filterFrom reads a filter; ages are relative to now. Errors name fields of f.
func filterFrom(f *holdfastv1.SessionFilter, now time.Time) (session.Filter, error) {
	var filter session.Filter
	if f == nil {
		return filter, nil
	}
	if owner := f.GetOwner(); owner != 0 {
		n, err := wire.NodeFrom("owner", owner)
		if err != nil {
			return filter, &session.FieldError{Field: "owner", Limit: "1 to 254, 0 for any"}
		}
		filter.Owner = n
	}
	labels, err := session.NewLabels(f.GetLabels())
	if err != nil {
		return filter, err
	}
	filter.Labels = labels
	switch f.GetScope() {
	case holdfastv1.Scope_SCOPE_UNSPECIFIED:
	case holdfastv1.Scope_SCOPE_GLOBAL:
		filter.Scope = session.ScopeGlobal
	case holdfastv1.Scope_SCOPE_LOCAL:
		filter.Scope = session.ScopeLocal
	default:
		return filter, &session.FieldError{Field: "scope", Limit: "SCOPE_GLOBAL, SCOPE_LOCAL or unspecified"}
	}
	if err := ageFrom(&filter, f, now); err != nil {
		return filter, err
	}
	return filter, remainingFrom(&filter, f)
}

func ageFrom(filter *session.Filter, f *holdfastv1.SessionFilter, now time.Time) error {
	youngest, err := wire.OptionalDurationFrom("min_age", f.GetMinAge())
	if err != nil {
		return err
	}
	oldest, err := wire.OptionalDurationFrom("max_age", f.GetMaxAge())
	if err != nil {
		return err
	}
	if f.GetMaxAge() != nil && oldest < youngest {
		return &session.FieldError{Field: "max_age", Limit: "min_age or more"}
	}
	if f.GetMinAge() != nil {
		filter.OpenedBefore = now.Add(-youngest)
	}
	if f.GetMaxAge() != nil {
		filter.OpenedAfter = now.Add(-oldest)
	}
	return nil
}

// remainingFrom reads the bounds of the remaining time. It refuses 0 as the upper bound: a filter could not distinguish
// 0 from no bound, and every live session has more time left.
func remainingFrom(filter *session.Filter, f *holdfastv1.SessionFilter) error {
	minRemaining, err := wire.DurationFrom("min_remaining", f.GetMinRemaining(), wire.NotNegative)
	if err != nil {
		return err
	}
	lowestLimit := wire.NotNegative
	if f.GetMaxRemaining() != nil {
		lowestLimit = wire.Positive
	}
	maxRemaining, err := wire.DurationFrom("max_remaining", f.GetMaxRemaining(), lowestLimit)
	if err != nil {
		return err
	}
	if f.GetMaxRemaining() != nil && maxRemaining < minRemaining {
		return &session.FieldError{Field: "max_remaining", Limit: "min_remaining or more"}
	}
	filter.MinRemaining, filter.MaxRemaining = minRemaining, maxRemaining
	return nil
}
