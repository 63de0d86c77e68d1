package top

import (
	"context"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"holdfast/session"
)

// fetches is a source that answers with the sample of its next second.
type fetches struct {
	seconds uint64
	queries []Query
}

func (l *fetches) Fetch(_ context.Context, w Query) Sample {
	l.seconds += 2
	l.queries = append(l.queries, w)
	return sample(l.seconds)
}

func (*fetches) Explain(context.Context, session.ID) ([]string, error) {
	return []string{"It lives."}, nil
}

// given carries out the program's commands, except ticks.
func given(p *program, cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case fetched, explained:
		p.Update(msg)
	}
}

// Whatever a key asks for is shown, also while the picture is paused; nothing else is.
func TestProgram(t *testing.T) {
	source := &fetches{}
	p := &program{ctx: t.Context(), source: source, model: New(time.Millisecond)}
	press := func(name string) {
		_, cmd := p.Update(tea.KeyPressMsg{Text: name, Code: []rune(name)[0]})
		given(p, cmd)
	}
	shows := func(second string) {
		t.Helper()
		if got := clean(p.View().Content); !strings.Contains(got, second) {
			t.Errorf("no %q in\n%s", second, got)
		}
	}
	at := func(seconds uint64) string { return sample(seconds).At.Local().Format("15:04:05") }
	given(p, p.Init())
	shows(at(2))
	press("p")
	if _, cmd := p.Update(tick(p.beat)); cmd != nil {
		t.Error("it fetches though it is paused")
	}
	shows(at(2))
	press("r")
	shows(at(4))
	press("/")
	p.Update(tea.PasteMsg{Content: "service=web07\n"})
	_, cmd := p.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
	given(p, cmd)
	shows(at(6))
	if last := source.queries[len(source.queries)-1]; last.Labels["service"] != "web07" {
		t.Errorf("asked for %v", last.Labels)
	}
	_, cmd = p.Update(tea.KeyPressMsg{Code: tea.KeyEscape})
	given(p, cmd)
	shows(at(8))
	if last := source.queries[len(source.queries)-1]; last.Labels != nil {
		t.Errorf("without a filter asked for %v", last.Labels)
	}

	// One fetch runs at a time; requests meanwhile are answered afterwards.
	press("p")
	before := len(source.queries)
	_, first := p.Update(tea.KeyPressMsg{Text: "r", Code: 'r'})
	if _, second := p.Update(tea.KeyPressMsg{Text: "r", Code: 'r'}); second != nil {
		t.Error("two fetches at a time")
	}
	_, next := p.Update(first())
	given(p, next)
	if n := len(source.queries) - before; n != 2 {
		t.Errorf("%d fetches for two queries", n)
	}
	// The tick of a former interval counts for nothing.
	if _, cmd := p.Update(tick(p.beat - 1)); cmd != nil {
		t.Error("it fetches at a former tick")
	}
	if _, cmd := p.Update(tea.KeyPressMsg{Text: "q", Code: 'q'}); cmd == nil || cmd() != tea.Quit() {
		t.Error("q does not quit")
	}
}
