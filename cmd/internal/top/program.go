package top

import (
	"context"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"holdfast/session"
)

// Run shows pictures of a cluster in a terminal until the user quits or ctx ends. Samples are every so often.
func Run(ctx context.Context, source Source, every time.Duration, in io.Reader, out io.Writer) error {
	p := tea.NewProgram(&program{ctx: ctx, source: source, model: New(every)},
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	if _, err := p.Run(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// program lets bubbletea run a [Model]: one goroutine calls its methods. At most one fetch runs.
type program struct {
	ctx      context.Context //nolint:containedctx // that of the whole program
	source   Source
	model    *Model
	fetching bool
	// requested: a key requested the running fetch, so its sample is shown even when paused.
	requested bool
	// again: a fetch was requested during the running fetch.
	again bool
	// beat numbers the ticks, so that ticks of a former interval are ignored.
	beat int
}

type (
	fetched   Sample
	tick      int
	explained struct {
		id        session.ID
		sentences []string
		err       error
	}
)

// Init starts with a fetch.
func (p *program) Init() tea.Cmd { return p.fetch() }

// Update handles an event.
func (p *program) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.model.Resize(msg.Width, msg.Height)
	case tea.KeyPressMsg:
		return p, p.act(p.model.Key(msg.String(), msg.Text))
	case tea.PasteMsg:
		return p, p.act(p.model.Key("paste", msg.Content))
	case explained:
		p.model.Explained(msg.id, msg.sentences, msg.err)
	case tick:
		if int(msg) == p.beat && !p.model.Paused() {
			return p, p.fetch()
		}
	case fetched:
		return p, p.add(Sample(msg))
	}
	return p, nil
}

func (p *program) add(s Sample) tea.Cmd {
	p.fetching = false
	if !p.model.Paused() || p.requested {
		p.model.Add(s)
	}
	if p.again {
		p.again = false
		return p.fetch()
	}
	p.requested = false
	return p.wait()
}

// wait schedules the next tick; earlier ticks become invalid.
func (p *program) wait() tea.Cmd {
	p.beat++
	beat := p.beat
	return tea.Tick(p.model.Every(), func(time.Time) tea.Msg { return tick(beat) })
}

func (p *program) fetch() tea.Cmd {
	if p.fetching {
		p.again = true
		return nil
	}
	p.fetching = true
	query := p.model.Query()
	return func() tea.Msg { return fetched(p.source.Fetch(p.ctx, query)) }
}

func (p *program) act(a Act) tea.Cmd {
	switch {
	case a.Quit:
		return tea.Quit
	case a.Explain != 0:
		return func() tea.Msg {
			sentences, err := p.source.Explain(p.ctx, a.Explain)
			return explained{a.Explain, sentences, err}
		}
	case a.Fetch:
		p.requested = true
		return p.fetch()
	case a.NewInterval && !p.fetching:
		return p.wait()
	default:
		return nil
	}
}

// View draws the picture.
func (p *program) View() tea.View {
	v := tea.NewView(p.model.View())
	v.AltScreen = true
	v.WindowTitle = "holdfast top"
	return v
}
