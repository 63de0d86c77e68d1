package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"holdfast/session"
)

// SettingError is one problem of a configuration. It is a [session.ErrInvalid].
type SettingError struct {
	// Setting is the name of the setting. Origin says where Value comes from: a flag, a variable, a line of a file, or
	// the default.
	Setting, Value, Origin string
	// Limit says what the value must be.
	Limit string
}

// inURL is what a URL may have before its host: a name and a password, whatever is in them.
var inURL = regexp.MustCompile(`//.*@`)

// Error returns one line. It has no password of a URL.
func (e *SettingError) Error() string {
	var b strings.Builder
	b.WriteString(e.Setting)
	if e.Value != "" {
		b.WriteString(" " + inURL.ReplaceAllString(e.Value, "//...@"))
	}
	if e.Origin != "" {
		b.WriteString(" (" + e.Origin + ")")
	}
	return b.String() + ": " + e.Limit
}

// Is makes e a [session.ErrInvalid].
func (e *SettingError) Is(target error) bool { return target == session.ErrInvalid }

// provenance knows where values come from, and which values could not be read. A check that needs an unreadable value
// is left out, because it would only report the same problem again.
type provenance struct {
	origin     map[string]string
	unreadable map[string]bool
}

// checker collects the problems of c.
type checker struct {
	c        *Config
	from     provenance
	rows     map[string]setting
	problems []error
}

func check(c Config, from provenance) error {
	k := checker{c: &c, from: from, rows: map[string]setting{}}
	for _, s := range settings() {
		k.rows[s.name] = s
		if s.ok(&c) || from.unreadable[s.name] {
			continue
		}
		k.problems = append(k.problems, k.fault(s.name, "must be "+s.limit))
		k.spoil(s.name)
	}
	k.peers()
	k.listeners()
	k.sessions()
	k.rateLimits()
	k.tls()
	k.raft()
	k.auth()
	return errors.Join(k.problems...)
}

// spoil leaves out the checks of combinations with a setting that has a problem by itself.
func (k *checker) spoil(name string) {
	spoilt := map[string]bool{name: true}
	for n := range k.from.unreadable {
		spoilt[n] = true
	}
	k.from.unreadable = spoilt
}

func (k *checker) fault(name, limit string) error {
	return &SettingError{Setting: name, Value: k.value(name), Origin: k.origin(name), Limit: limit}
}

func (k *checker) value(name string) string { return k.rows[name].value(k.c).String() }

func (k *checker) origin(name string) string {
	switch origin := k.from.origin[name]; {
	case origin != "":
		return origin
	case k.from.origin == nil && k.value(name) != "": // a Config made by code has no origins
		return ""
	case k.from.origin == nil:
		return "not set"
	case k.value(name) == "":
		return "not set, flag --" + k.rows[name].flag()
	case k.rows[name].derived != "":
		return "default " + k.rows[name].derived
	default:
		return "default"
	}
}

// other describes a setting that the setting with the problem must agree with.
func (k *checker) other(name string) string {
	e := &SettingError{Setting: name, Value: k.value(name), Origin: k.origin(name)}
	return strings.TrimSuffix(e.Error(), ": ")
}

// clash reports that name does not go together with others, although each is in its own range.
func (k *checker) clash(limit, name string, others ...string) {
	if k.from.unreadable[name] || slices.ContainsFunc(others, func(o string) bool { return k.from.unreadable[o] }) {
		return
	}
	k.problems = append(k.problems, k.fault(name, limit))
}

func (k *checker) peers() {
	for _, problem := range peerProblems(k.c.Peers) {
		k.problems = append(k.problems, &SettingError{Setting: "peers", Origin: k.origin("peers"), Limit: problem})
	}
	if _, ok := k.c.Self(); !ok {
		k.clash("must be one of "+k.other("peers"), "node", "peers")
	}
}

func (k *checker) listeners() {
	all := listenSettings()
	for i, a := range all {
		for _, b := range all[:i] {
			if overlap(k.value(a.name), k.value(b.name)) {
				k.clash("must not be the port of "+k.other(b.name), a.name, b.name)
			}
		}
	}
}
