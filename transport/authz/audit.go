package authz

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"holdfast/auth"
	"holdfast/session"
)

// Outcome is the outcome of an act of an operator.
type Outcome uint8

// Outcomes.
const (
	// Done: the node carried the act out. Denied: the caller has no permission. Failed: the caller has permission, and
	// the node did not carry the act out, or does not know whether it did.
	Done Outcome = iota
	Denied
	Failed
	// Outcomes is the number of outcomes.
	Outcomes
)

// String is the outcome's name in the log and in metrics.
func (o Outcome) String() string { return [...]string{"done", "denied", "failed"}[o] }

// Audit counts acts of operators, and writes one line for each permitted act of a caller with a verified name. Other
// lines are rate-limited, because any caller that reaches the port can cause any number of them. Safe for concurrent
// use.
type Audit struct {
	logger hclog.Logger
	counts map[string]*[Outcomes]atomic.Uint64
	// nameless limits the lines about callers without a verified name, denied the lines about denied acts of callers
	// with one. Each outcome has its own limit, so that denied acts leave the lines about done acts alone.
	nameless [Outcomes]session.LogLimiter
	denied   session.LogLimiter
}

// Bounds of lines that any caller can cause: a burst, and one more in each interval.
const (
	lineBurst    = 1000
	lineInterval = time.Second
)

// NewAudit returns an audit of the acts of a table. Lines go to logger.
func NewAudit(logger hclog.Logger, table auth.Table) *Audit {
	a := &Audit{logger: logger, counts: make(map[string]*[Outcomes]atomic.Uint64)}
	for o := range a.nameless {
		a.nameless[o].Burst, a.nameless[o].Every = lineBurst, lineInterval
	}
	a.denied.Burst, a.denied.Every = lineBurst, lineInterval
	for _, act := range table.Acts() {
		a.counts[act] = new([Outcomes]atomic.Uint64)
	}
	return a
}

// Count returns how many acts of a name had an outcome.
func (a *Audit) Count(act string, o Outcome) uint64 {
	if c := a.counts[act]; c != nil {
		return c[o].Load()
	}
	return 0
}

// Omitted returns the number of unwritten lines about acts with an outcome.
func (a *Audit) Omitted(o Outcome) uint64 {
	n := a.nameless[o].Omitted()
	if o == Denied {
		n += a.denied.Omitted()
	}
	return n
}

// allow reports whether the line of an act may be written, and how many lines of its kind were omitted since the last
// one.
func (a *Audit) allow(verified bool, o Outcome) (omitted int, ok bool) {
	switch {
	case !verified:
		return a.nameless[o].Allow(time.Now())
	case o == Denied:
		return a.denied.Allow(time.Now())
	default:
		return 0, true
	}
}

// record is one act in progress. A nil record means a call that is not audited.
type record struct {
	audit          *Audit
	act, who, from string
	// verified says that who is a verified name.
	verified bool
	began    time.Time

	mu     sync.Mutex
	what   string // guarded by mu
	result string // guarded by mu
	failed error  // guarded by mu
	ended  bool   // guarded by mu
}

func (a *Audit) begin(act string, by caller, from string) *record {
	if act == "" || a == nil {
		return nil
	}
	return &record{audit: a, act: act, who: by.name, verified: by.verified, from: from, began: time.Now()}
}

// caller is the author of an act.
type caller struct {
	name     string
	verified bool
}

type recordKey struct{}

// in returns ctx with the record, for [Note].
func (r *record) in(ctx context.Context) context.Context {
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, recordKey{}, r)
}

// Note adds the result in words, such as "4 of 5 ended", to the audit line of ctx's call. A call has a line and a count
// also without a note. A later note replaces an earlier one. Note does nothing in a call without an act.
func Note(ctx context.Context, result string) {
	r, _ := ctx.Value(recordKey{}).(*record)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result = cut(auth.WithoutTokens(result), maxWhat)
}

// NoteFailure marks an act as failed although its call returns no error, because nothing of the request was carried
// out; err says why. NoteFailure does nothing in a call without an act.
func NoteFailure(ctx context.Context, err error) {
	r, _ := ctx.Value(recordKey{}).(*record)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
}

// cut shortens a text to the given number of bytes, and marks the cut.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}

// about records the first request of the act.
func (r *record) about(request any) {
	if r == nil {
		return
	}
	m, ok := request.(proto.Message)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.what == "" {
		r.what = describe(m.ProtoReflect())
	}
}

// end writes the line of the act.
func (r *record) end(err error) {
	if r == nil {
		return
	}
	r.mu.Lock()
	what, result, again := r.what, r.result, r.ended
	if err == nil {
		err = r.failed
	}
	r.ended = true
	r.mu.Unlock()
	if again {
		return
	}
	outcome := Done
	switch {
	case errors.Is(err, session.ErrForbidden), errors.Is(err, session.ErrUnauthenticated):
		outcome = Denied
	case err != nil:
		outcome = Failed
	}
	r.audit.counts[r.act][outcome].Add(1)
	omitted, ok := r.audit.allow(r.verified, outcome)
	if !ok {
		return
	}
	line := []any{
		"action", r.act, "who", r.who, "from", r.from, "what", what, "outcome", outcome.String(), "took", time.Since(r.began),
	}
	if result != "" {
		line = append(line, "result", result)
	}
	if err != nil {
		line = append(line, "error", auth.WithoutTokens(err.Error()))
	}
	if omitted > 0 {
		line = append(line, "omitted", omitted)
	}
	r.audit.logger.Info("audit", line...)
}

// errPanicked is the outcome of an act whose handler panicked.
var errPanicked = errors.New("the handler panicked: the log says more")

// recovered writes the line of an act whose handler panics. The panic continues.
func (r *record) recovered() {
	if r == nil {
		return
	}
	r.mu.Lock()
	ended := r.ended
	r.mu.Unlock()
	if !ended {
		r.end(errPanicked)
	}
}

// Bounds of the description of a request in a line.
const (
	maxText  = 64
	maxItems = 8
	maxDepth = 4
	maxWhat  = 1024
)

// describe returns the set fields of a request, without secrets: bytes show only their length, and a field with the
// name of a secret shows nothing.
func describe(m protoreflect.Message) string {
	var b strings.Builder
	describeTo(&b, m, 0)
	return cut(auth.WithoutTokens(b.String()), maxWhat)
}

func describeTo(b *strings.Builder, m protoreflect.Message, deep int) {
	if deep == maxDepth {
		b.WriteString("...")
		return
	}
	fields, first := m.Descriptor().Fields(), true
	for i := range fields.Len() { // in field order: Range has none
		f := fields.Get(i)
		if !m.Has(f) || b.Len() > maxWhat {
			continue
		}
		if !first {
			b.WriteString(" ")
		}
		first = false
		b.WriteString(string(f.Name()) + "=")
		field(b, f, m.Get(f), deep)
	}
}

// field writes the value of a field, unless it is secret.
func field(b *strings.Builder, f protoreflect.FieldDescriptor, v protoreflect.Value, deep int) {
	switch {
	case secret(f):
		b.WriteString("(secret)")
	case f.IsMap():
		fmt.Fprintf(b, "(%d entries)", v.Map().Len())
	case f.IsList():
		b.WriteString("[")
		for j := range min(v.List().Len(), maxItems) {
			if j > 0 {
				b.WriteString(" ")
			}
			value(b, f, v.List().Get(j), deep)
		}
		if v.List().Len() > maxItems {
			fmt.Fprintf(b, " and %d more", v.List().Len()-maxItems)
		}
		b.WriteString("]")
	default:
		value(b, f, v, deep)
	}
}

func value(b *strings.Builder, f protoreflect.FieldDescriptor, v protoreflect.Value, deep int) {
	switch f.Kind() { //nolint:exhaustive // the other kinds print as they are
	case protoreflect.MessageKind, protoreflect.GroupKind:
		b.WriteString("{")
		describeTo(b, v.Message(), deep+1)
		b.WriteString("}")
	case protoreflect.BytesKind:
		fmt.Fprintf(b, "(%d bytes)", len(v.Bytes()))
	case protoreflect.StringKind:
		fmt.Fprintf(b, "%q", cut(v.String(), maxText))
	case protoreflect.Fixed64Kind:
		fmt.Fprintf(b, "%#016x", v.Uint())
	case protoreflect.EnumKind:
		if d := f.Enum().Values().ByNumber(v.Enum()); d != nil {
			b.WriteString(strings.ToLower(string(d.Name())))
			return
		}
		fmt.Fprint(b, v.Enum())
	default:
		fmt.Fprint(b, v.Interface())
	}
}

// secret reports whether a field has the name of a secret.
func secret(f protoreflect.FieldDescriptor) bool {
	name := string(f.Name())
	for _, word := range []string{"credential", "secret", "password", "digest", "private", "bearer"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return name == "key" || strings.HasSuffix(name, "_key")
}
