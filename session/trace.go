package session

import (
	"context"
	"encoding/hex"
)

// TraceBytes is the length of a [Trace] on the wire.
const TraceBytes = 16 + 8 + 1

// Trace is the place of a request in its caller's trace (W3C Trace Context, level 1): the parent span of the next one.
// A request outside a trace has a nil Trace. It is not changed once it is in a request. No trace is in the log, because
// it says nothing about the state.
type Trace struct {
	ID   [16]byte
	Span [8]byte
	// Flags are W3C's trace-flags: [TraceSampled] or 0, and others that Holdfast does not read.
	Flags byte
}

// TraceSampled is the flag of a trace whose spans are kept.
const TraceSampled = 1

// Append appends the trace in the form of the wire: nothing for nil.
func (t *Trace) Append(b []byte) []byte {
	if t == nil {
		return b
	}
	return append(append(append(b, t.ID[:]...), t.Span[:]...), t.Flags)
}

// Bytes returns the trace in the form of the wire, nil for nil.
func (t *Trace) Bytes() []byte { return t.Append(nil) }

// TraceFrom parses the form of Append. It returns nil for anything else: no request is refused because of its trace,
// and nothing of b is kept.
func TraceFrom(b []byte) *Trace {
	if len(b) != TraceBytes {
		return nil
	}
	t := &Trace{Flags: b[24]}
	copy(t.ID[:], b)
	copy(t.Span[:], b[16:])
	if !t.valid() {
		return nil
	}
	return t
}

func (t *Trace) valid() bool { return t.ID != [16]byte{} && t.Span != [8]byte{} }

// traceparent has two digits of a version, 32 of the trace, 16 of the span and two of flags, with hyphens between them.
const traceparentLength = 2 + 1 + 32 + 1 + 16 + 1 + 2

// String returns the trace in the form of W3C's header traceparent; empty for nil.
func (t *Trace) String() string {
	if t == nil {
		return ""
	}
	const version = "00-"
	b := append(make([]byte, 0, traceparentLength), version...)
	b = append(hex.AppendEncode(b, t.ID[:]), '-')
	b = append(hex.AppendEncode(b, t.Span[:]), '-')
	return string(hex.AppendEncode(b, []byte{t.Flags}))
}

// ParseTrace parses W3C's header traceparent. It returns nil for anything else, as [TraceFrom] does. Text after the
// flags in a later version of the header is ignored.
func ParseTrace(header string) *Trace {
	if len(header) < traceparentLength || header[2] != '-' || header[35] != '-' || header[52] != '-' {
		return nil
	}
	version, rest := header[:2], header[traceparentLength:]
	if rest != "" && (version == "00" || rest[0] != '-') {
		return nil
	}
	var b [1 + TraceBytes]byte
	for _, part := range []struct {
		to   []byte
		text string
	}{
		{b[:1], version}, {b[1:17], header[3:35]}, {b[17:25], header[36:52]}, {b[25:], header[53:traceparentLength]},
	} {
		if !lowerHex(part.text) {
			return nil
		}
		if _, err := hex.Decode(part.to, []byte(part.text)); err != nil {
			return nil
		}
	}
	if b[0] == 0xff {
		return nil
	}
	return TraceFrom(b[1:])
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

type traceKey struct{}

// WithTrace returns a context of a request with a trace; ctx itself for nil.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, t)
}

// TraceOf returns the trace of the context's request, nil without one. It allocates nothing.
func TraceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(traceKey{}).(*Trace)
	return t
}

// Traced is an entry of the log with a trace.
type Traced struct {
	Index uint64
	Trace *Trace
}

// MaxTraced bounds the entries that one [Heartbeat] names.
const MaxTraced = 64
