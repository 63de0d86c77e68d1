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

// program lets bubbletea run a [Model]: one goroutine calls its methods. At most one look is under way.
type program struct {
	ctx     context.Context //nolint:containedctx // that of the whole program
	source  Source
	model   *Model
	looking bool
	// asked says that a key asked for the look under way: the picture shows it, though it is paused.
	asked bool
	// again says that a look was asked for while one was under way.
	again bool
	// beat numbers the ticks, so that those of a former interval count for nothing.
	beat int
}

type (
	looked    Sample
	tick      int
	explained struct {
		id        session.ID
		sentences []string
		err       error
	}
)

// Init begins with a look.
func (p *program) Init() tea.Cmd { return p.look() }

// Update takes what happens.
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
			return p, p.look()
		}
	case looked:
		return p, p.take(Sample(msg))
	}
	return p, nil
}

func (p *program) take(s Sample) tea.Cmd {
	p.looking = false
	if !p.model.Paused() || p.asked {
		p.model.Take(s)
	}
	if p.again {
		p.again = false
		return p.look()
	}
	p.asked = false
	return p.wait()
}

// wait makes the next tick, after which there are no others.
func (p *program) wait() tea.Cmd {
	p.beat++
	beat := p.beat
	return tea.Tick(p.model.Every(), func(time.Time) tea.Msg { return tick(beat) })
}

func (p *program) look() tea.Cmd {
	if p.looking {
		p.again = true
		return nil
	}
	p.looking = true
	wish := p.model.Wish()
	return func() tea.Msg { return looked(p.source.Look(p.ctx, wish)) }
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
	case a.Look:
		p.asked = true
		return p.look()
	case a.Retime && !p.looking:
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
