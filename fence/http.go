package fence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Header is the header of a request with its token, and of a 412 response with the newest token.
const Header = "Holdfast-Fence"

// SetHeader sets t in the header of a request, and replaces any other token.
func SetHeader(h http.Header, t Token) { h.Set(Header, t.String()) }

// FromHeader returns the token of a header. The error is a [*TokenError]: no token, several, or one that no lock has.
func FromHeader(h http.Header) (Token, error) {
	values := h.Values(Header)
	if len(values) != 1 {
		return 0, &TokenError{Problem: fmt.Sprintf("%d headers %s: must be one", len(values), Header)}
	}
	t, err := Parse(values[0])
	if err != nil {
		return 0, err
	}
	return t, t.check()
}

// Handler serves requests with next if their token is the newest of their resource so far. The function resource names
// the resource of a request. Everything that next does for a request is one step with the check ([Guard.Do]): requests
// for one resource are served one at a time, in the order of their tokens.
//
// Other requests never reach next. The text of a response explains the refusal:
//
//   - 400 Bad Request: no token, several, one that is none, or a name that is too long.
//   - 412 Precondition Failed: an older token than the newest. The text names both; the header [Header] has the newest.
//   - 503 Service Unavailable: the guard is full, or the request ended while it waited for the one before.
//
// A client that sends or reads slowly delays the other clients of its resource: set the server's ReadTimeout and
// WriteTimeout. Requests that only read need no token; serve them without this handler.
func (g *Guard) Handler(resource func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, err := FromHeader(r.Header)
		if err == nil {
			err = g.Do(r.Context(), resource(r), t, func(context.Context) error {
				next.ServeHTTP(w, r)
				return nil
			})
		}
		if err != nil {
			refuse(w, err)
		}
	})
}

// refuse answers a request that did not reach its handler.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	if stale, ok := errors.AsType[*StaleError](err); ok {
		SetHeader(w.Header(), stale.Newest)
		status = http.StatusPreconditionFailed
	} else if is[*TokenError](err) || is[*NameError](err) {
		status = http.StatusBadRequest
	}
	http.Error(w, err.Error(), status)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// CheckResponse returns a [*StaleError] if r is a [Guard.Handler]'s refusal of an older token: the client has lost its
// lock and must stop. For any other response it returns nil. It does not read the body.
func CheckResponse(r *http.Response) error {
	if r.StatusCode != http.StatusPreconditionFailed || r.Request == nil {
		return nil
	}
	newest, err := FromHeader(r.Header)
	if err != nil {
		return nil //nolint:nilerr // a 412 without a token is about another precondition
	}
	sent, err := FromHeader(r.Request.Header)
	if err != nil {
		return nil //nolint:nilerr // the request had no token to refuse
	}
	return &StaleError{Resource: r.Request.URL.Redacted(), Token: sent, Newest: newest}
}
