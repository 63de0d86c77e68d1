package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"holdfast/session"
)

// setting is one row of the table. Flags, environment variables, files, checks and documentation are made from it.
type setting struct {
	// name is the key in a file. The flag has hyphens; the variable is in upper case after HOLDFAST_.
	name string
	// def is the default as a user would write it. It is empty when there is none, or when derived says where the
	// default comes from.
	def, derived string
	kind, help   string
	// limit is the range in words; ok reports whether a configuration is in the range.
	limit string
	ok    func(c *Config) bool
	value func(c *Config) pflag.Value
	// secret says that the value must stay hidden. It has no flag: other users of a machine see the flags of its
	// programs.
	secret bool
}

func (s setting) hides() setting              { s.secret = true; return s }
func (s setting) helps(help string) setting   { s.help = help; return s }
func (s setting) from(derived string) setting { s.derived = derived; return s }

func (s setting) flag() string     { return strings.ReplaceAll(s.name, "_", "-") }
func (s setting) variable() string { return envPrefix + strings.ToUpper(s.name) }

// fallback describes the value of a setting that no source sets.
func (s setting) fallback() string { return cmp.Or(s.def, s.derived) }

// span is a range, both ends included.
type span[T cmp.Ordered] struct{ lo, hi T }

func (s span[T]) contains(v T) bool { return s.lo <= v && v <= s.hi }
func (s span[T]) String() string    { return fmt.Sprintf("%v to %v", s.lo, s.hi) }

func duration(name, def string, in span[time.Duration], at func(c *Config) *time.Duration) setting {
	return setting{
		name: name, def: def, kind: "duration",
		limit: session.FormatDuration(in.lo) + " to " + session.FormatDuration(in.hi),
		ok:    func(c *Config) bool { return in.contains(*at(c)) },
		value: func(c *Config) pflag.Value {
			return &text[time.Duration]{
				at: at(c), kind: "duration", parse: parseDuration, format: session.FormatDuration,
			}
		},
	}
}

func parseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("must be a duration with a unit, such as 500ms, 2s or 1m")
	}
	return d, nil
}

func number[T int | uint64](name, def string, in span[T], at func(c *Config) *T) setting {
	parse := func(s string) (T, error) {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil || v < 0 {
			return 0, errors.New("must be a whole number, " + in.String())
		}
		return T(v), nil
	}
	return setting{
		name: name, def: def, kind: "number", limit: in.String(),
		ok: func(c *Config) bool { return in.contains(*at(c)) },
		value: func(c *Config) pflag.Value {
			return &text[T]{at: at(c), kind: "number", parse: parse, format: func(v T) string { return fmt.Sprint(v) }}
		},
	}
}

func word(name, def, limit string, ok func(string) bool, at func(c *Config) *string) setting {
	as := func(s string) string { return s }
	return setting{
		name: name, def: def, kind: "text", limit: limit,
		ok: func(c *Config) bool { return ok(*at(c)) },
		value: func(c *Config) pflag.Value {
			return &text[string]{
				at: at(c), kind: "text", parse: func(s string) (string, error) { return s, nil }, format: as,
			}
		},
	}
}

func choice(name, def string, among []string, at func(c *Config) *string) setting {
	return word(name, def, oneOf(among), func(s string) bool { return slices.Contains(among, s) }, at)
}

// oneOf lists words as a sentence does. It needs at least two.
func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// on and off are the two values of a toggle as a user writes them.
const (
	on  = "on"
	off = "off"
)

func toggle(name, def string, at func(c *Config) *bool) setting {
	limit := oneOf([]string{off, on})
	parse := func(s string) (bool, error) {
		if s != on && s != off {
			return false, errors.New("must be " + limit)
		}
		return s == on, nil
	}
	format := func(b bool) string { return map[bool]string{false: off, true: on}[b] }
	return setting{
		name: name, def: def, kind: "text", limit: limit,
		ok: func(*Config) bool { return true },
		value: func(c *Config) pflag.Value {
			return &text[bool]{at: at(c), kind: "text", parse: parse, format: format}
		},
	}
}

func nodeValue(at *session.Node) pflag.Value {
	return &text[session.Node]{at: at, kind: "number", parse: ParseNode, format: FormatNode}
}

func peersValue(at *[]Peer) pflag.Value {
	return &text[[]Peer]{at: at, kind: "peers", parse: ParsePeers, format: FormatPeers}
}

// text is a value of a configuration in its written form.
type text[T any] struct {
	at     *T
	kind   string
	parse  func(string) (T, error)
	format func(T) string
}

// Set parses s.
func (t *text[T]) Set(s string) error {
	v, err := t.parse(s)
	if err == nil {
		*t.at = v
	}
	return err
}

// String is the inverse of Set.
func (t *text[T]) String() string { return t.format(*t.at) }

// Type returns the kind of value, for help texts.
func (t *text[T]) Type() string { return t.kind }
