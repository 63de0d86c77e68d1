package guard

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

// Outcome is how an act of an operator ended.
type Outcome uint8

// Outcomes.
const (
	// Done: the node did it. Refused: the caller may not. Failed: the caller may, and the node did not do it, or does not
	// know whether it was done.
	Done Outcome = iota
	Denied
	Failed
	// Outcomes is how many there are.
	Outcomes
)

// String is the outcome's name in the log and in metrics.
func (o Outcome) String() string { return [...]string{"done", "refused", "failed"}[o] }

// Audit counts acts of operators, and writes one line for each act of a caller with a verified name that its roles
// allow. Other lines have a rate limit: whoever reaches the port can ask for any number of them. Safe for concurrent
// use.
type Audit struct {
	logger hclog.Logger
	counts map[string]*[Outcomes]atomic.Uint64
	// nameless are the lines of callers without a verified name, denied those of callers with one whose roles do not
	// allow the act. Each outcome has a limit of its own, so that refusals leave room for what was done.
	nameless [Outcomes]session.Lines
	denied   session.Lines
}

// Bounds of lines that any caller can bring about: so many at once, and one more in each interval.
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

// Omitted returns how many lines about acts with an outcome were not written because of their rate.
func (a *Audit) Omitted(o Outcome) uint64 {
	n := a.nameless[o].Omitted()
	if o == Denied {
		n += a.denied.Omitted()
	}
	return n
}

// take reports whether the line of an act may be written, and how many of its kind were not since the last one.
func (a *Audit) take(verified bool, o Outcome) (omitted int, ok bool) {
	switch {
	case !verified:
		return a.nameless[o].Take(time.Now())
	case o == Denied:
		return a.denied.Take(time.Now())
	default:
		return 0, true
	}
}

// record is one act under way. A nil record is that of a call which is not audited.
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

// caller is who does an act.
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

// Note adds to the audit's line of the call of ctx what came of it, in words, such as "4 of 5 ended". A call has a line
// and a count without any note. A later note replaces an earlier one. Note does nothing in a call without an act.
func Note(ctx context.Context, result string) {
	r, _ := ctx.Value(recordKey{}).(*record)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result = cut(auth.WithoutTokens(result), mostWhat)
}

// NoteFailure has the audit call an act failed that is answered without an error, because it did nothing of what was
// asked: err says why. NoteFailure does nothing in a call without an act.
func NoteFailure(ctx context.Context, err error) {
	r, _ := ctx.Value(recordKey{}).(*record)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = err
}

// cut shortens a text to at most so many bytes, and shows that it did.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// about notes the first request of the act.
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
	omitted, ok := r.audit.take(r.verified, outcome)
	if !ok {
		return
	}
	line := []any{
		"act", r.act, "who", r.who, "from", r.from, "what", what, "outcome", outcome.String(), "took", time.Since(r.began),
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

// recovered writes the line of an act whose handler panics, and lets the panic go on.
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

// Bounds of what a line says of a request.
const (
	mostText  = 64
	mostItems = 8
	mostDeep  = 4
	mostWhat  = 1024
)

// describe returns the fields of a request that are set, without any that may be secret: bytes show their length alone,
// and a field whose name says that it is a secret shows nothing.
func describe(m protoreflect.Message) string {
	var b strings.Builder
	describeTo(&b, m, 0)
	return cut(auth.WithoutTokens(b.String()), mostWhat)
}

func describeTo(b *strings.Builder, m protoreflect.Message, deep int) {
	if deep == mostDeep {
		b.WriteString("...")
		return
	}
	fields, first := m.Descriptor().Fields(), true
	for i := range fields.Len() { // in their order: Range has none
		f := fields.Get(i)
		if !m.Has(f) || b.Len() > mostWhat {
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
		for j := range min(v.List().Len(), mostItems) {
			if j > 0 {
				b.WriteString(" ")
			}
			value(b, f, v.List().Get(j), deep)
		}
		if v.List().Len() > mostItems {
			fmt.Fprintf(b, " and %d more", v.List().Len()-mostItems)
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
		fmt.Fprintf(b, "%q", cut(v.String(), mostText))
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

// secret reports whether the name of a field says that it is a secret.
func secret(f protoreflect.FieldDescriptor) bool {
	name := string(f.Name())
	for _, word := range []string{"credential", "secret", "password", "digest", "private", "bearer"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return name == "key" || strings.HasSuffix(name, "_key")
}
