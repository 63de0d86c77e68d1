package system

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// program is a contest in a process of its own: that of a peer's own client. It reads commands from its standard input,
// a line each, and answers each with one line of JSON. Its first answer says that all clients have sessions. It dies
// with this process.
//
//	alone CLIENT ROUNDS    pass ROUNDS    queue    drain
type program struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan reported
}

// reported is an answer of a program: times in nanoseconds, or what went wrong.
type reported struct {
	Took  []time.Duration `json:"took"`
	Error string          `json:"error"`
}

// runProgram starts a program with the addresses of the clients' servers and the path of the lock behind its arguments.
func runProgram(ctx context.Context, args, addresses []string) (Contest, error) {
	args = append(args, strings.Join(addresses, ","), lockPath)
	cmd := exec.Command(args[0], args[1:]...) //nolint:noctx // End ends it
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err = cmd.Start(); err != nil {
		return nil, err
	}
	p := &program{cmd: cmd, in: in, answers: make(chan reported)}
	go p.read(out)
	if _, err = p.answer(ctx); err != nil {
		p.End()
		return nil, err
	}
	return p, nil
}

// read hands on the answers until the program ends.
func (p *program) read(out io.Reader) {
	defer close(p.answers)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, pageBytes)
	for lines.Scan() {
		r := reported{}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			r = reported{Error: fmt.Sprintf("%q: %v", lines.Text(), err)}
		}
		p.answers <- r
	}
}

// answer waits for an answer.
func (p *program) answer(ctx context.Context) ([]time.Duration, error) {
	select {
	case r, ok := <-p.answers:
		switch {
		case !ok:
			return nil, fmt.Errorf("%s has ended", p.cmd.Path)
		case r.Error != "":
			return nil, errors.New(r.Error)
		}
		return r.Took, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ask sends a command and waits for its answer.
func (p *program) ask(ctx context.Context, command string, args ...any) ([]time.Duration, error) {
	line := strings.TrimSpace(fmt.Sprintln(append([]any{command}, args...)...)) + "\n"
	if _, err := io.WriteString(p.in, line); err != nil {
		return nil, err
	}
	return p.answer(ctx)
}

func (p *program) Alone(ctx context.Context, client, rounds int) ([]time.Duration, error) {
	return p.ask(ctx, "alone", client, rounds)
}

func (p *program) Pass(ctx context.Context, rounds int) ([]time.Duration, error) {
	return p.ask(ctx, "pass", rounds)
}

func (p *program) Queue(ctx context.Context) error {
	_, err := p.ask(ctx, "queue")
	return err
}

func (p *program) Drain(ctx context.Context) (time.Duration, error) {
	took, err := p.ask(ctx, "drain")
	if err != nil {
		return 0, err
	}
	if len(took) != 1 {
		return 0, fmt.Errorf("%d times of a drain", len(took))
	}
	return took[0], nil
}

// End kills the program: its sessions end with the servers.
func (p *program) End() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	for range p.answers { // read returns
	}
	_ = p.cmd.Wait()
}

// places are the addresses of the clients' servers.
func places(addresses []string, servers []int) []string {
	var all []string
	for _, server := range servers {
		all = append(all, addresses[server])
	}
	return all
}
