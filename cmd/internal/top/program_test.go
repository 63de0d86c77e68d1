package top

import (
	"context"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"holdfast/session"
)

// looks is a source that answers with the sample of its next second.
type looks struct {
	seconds uint64
	wishes  []Wish
}

func (l *looks) Look(_ context.Context, w Wish) Sample {
	l.seconds += 2
	l.wishes = append(l.wishes, w)
	return sample(l.seconds)
}

func (*looks) Explain(context.Context, session.ID) ([]string, error) {
	return []string{"It lives."}, nil
}

// given carries out what the program asks for, but for ticks.
func given(p *program, cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case looked, explained:
		p.Update(msg)
	}
}

// Whatever a key asks for is shown, also while the picture is paused; nothing else is.
func TestProgram(t *testing.T) {
	source := &looks{}
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
		t.Error("it looks though it is paused")
	}
	shows(at(2))
	press("r")
	shows(at(4))
	press("/")
	p.Update(tea.PasteMsg{Content: "service=web07\n"})
	_, cmd := p.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
	given(p, cmd)
	shows(at(6))
	if last := source.wishes[len(source.wishes)-1]; last.Labels["service"] != "web07" {
		t.Errorf("asked for %v", last.Labels)
	}
	_, cmd = p.Update(tea.KeyPressMsg{Code: tea.KeyEscape})
	given(p, cmd)
	shows(at(8))
	if last := source.wishes[len(source.wishes)-1]; last.Labels != nil {
		t.Errorf("without a filter asked for %v", last.Labels)
	}

	// One look is under way at a time; what is asked meanwhile follows.
	press("p")
	before := len(source.wishes)
	_, first := p.Update(tea.KeyPressMsg{Text: "r", Code: 'r'})
	if _, second := p.Update(tea.KeyPressMsg{Text: "r", Code: 'r'}); second != nil {
		t.Error("two looks at a time")
	}
	_, next := p.Update(first())
	given(p, next)
	if n := len(source.wishes) - before; n != 2 {
		t.Errorf("%d looks for two wishes", n)
	}
	// The tick of a former interval counts for nothing.
	if _, cmd := p.Update(tick(p.beat - 1)); cmd != nil {
		t.Error("it looks at a former tick")
	}
	if _, cmd := p.Update(tea.KeyPressMsg{Text: "q", Code: 'q'}); cmd == nil || cmd() != tea.Quit() {
		t.Error("q does not quit")
	}
}
