package sim

import (
	"fmt"
	"io"
	stdlog "log" //nolint:depguard // hclog.Logger's interface requires it
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// keptLines is the number of log lines that a run keeps.
const keptLines = 20_000

// logs keep the newest lines of all nodes and clients for a failed run. A line becomes text only when it is read:
// making the text costs more than all the rest.
type logs struct {
	level hclog.Level
	// on, when set, is called with each line, also with those that are not kept. Set before any line comes.
	on func(name, text string)

	mu    sync.Mutex
	lines []line // guarded by mu
	next  int    // guarded by mu; the place of the next line once keptLines are kept
}

type line struct {
	at    time.Time
	level hclog.Level
	name  string
	text  string
	args  []any
}

// newLogs keeps lines from the level that SIM_LOG names on; the default is info.
func newLogs() *logs {
	level := hclog.LevelFromString(os.Getenv("SIM_LOG"))
	if level == hclog.NoLevel {
		level = hclog.Info
	}
	return &logs{level: level}
}

func (l *logs) add(n line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < keptLines {
		l.lines = append(l.lines, n)
		return
	}
	l.lines[l.next] = n
	l.next = (l.next + 1) % keptLines
}

// count returns how many of the kept lines contain text.
func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, line := range l.lines {
		if line.text == text {
			n++
		}
	}
	return n
}

// text returns all kept lines.
func (l *logs) text() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]string, 0, len(l.lines))
	for _, n := range slices.Concat(l.lines[l.next:], l.lines[:l.next]) {
		all = append(all, n.String())
	}
	return all
}

// String returns the line roughly as hclog would.
func (n line) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s [%-5s] %s: %s", n.at.UTC().Format("15:04:05.000"), strings.ToUpper(n.level.String()), n.name,
		n.text)
	for i := 0; i+1 < len(n.args); i += 2 {
		if f, ok := n.args[i+1].(hclog.Format); ok && len(f) > 0 {
			if format, ok := f[0].(string); ok {
				fmt.Fprintf(&b, " %v="+format, append([]any{n.args[i]}, f[1:]...)...)
				continue
			}
		}
		fmt.Fprintf(&b, " %v=%v", n.args[i], n.args[i+1])
	}
	return b.String()
}

// logger returns the logger of a host.
func (l *logs) logger(name string) hclog.Logger { return &logger{logs: l, name: name} }

// logger is a hclog.Logger that keeps lines as they are.
type logger struct {
	logs *logs
	name string
	with []any
}

func (l *logger) Log(level hclog.Level, msg string, args ...any) {
	if l.logs.on != nil {
		l.logs.on(l.name, msg)
	}
	if level < l.logs.level {
		return
	}
	l.logs.add(line{at: time.Now(), level: level, name: l.name, text: msg, args: slices.Concat(l.with, args)})
}

func (l *logger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }
func (l *logger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }
func (l *logger) Info(msg string, args ...any)  { l.Log(hclog.Info, msg, args...) }
func (l *logger) Warn(msg string, args ...any)  { l.Log(hclog.Warn, msg, args...) }
func (l *logger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

func (l *logger) IsTrace() bool { return l.logs.level <= hclog.Trace }
func (l *logger) IsDebug() bool { return l.logs.level <= hclog.Debug }
func (l *logger) IsInfo() bool  { return l.logs.level <= hclog.Info }
func (l *logger) IsWarn() bool  { return l.logs.level <= hclog.Warn }
func (l *logger) IsError() bool { return l.logs.level <= hclog.Error }

func (l *logger) ImpliedArgs() []any { return l.with }
func (l *logger) With(args ...any) hclog.Logger {
	return &logger{logs: l.logs, name: l.name, with: slices.Concat(l.with, args)}
}

func (l *logger) Name() string { return l.name }
func (l *logger) Named(name string) hclog.Logger {
	return &logger{logs: l.logs, name: l.name + "." + name, with: l.with}
}

func (l *logger) ResetNamed(name string) hclog.Logger {
	return &logger{logs: l.logs, name: name, with: l.with}
}

func (l *logger) SetLevel(hclog.Level)  {}
func (l *logger) GetLevel() hclog.Level { return l.logs.level }

func (l *logger) StandardLogger(o *hclog.StandardLoggerOptions) *stdlog.Logger {
	return stdlog.New(l.StandardWriter(o), "", 0)
}

func (l *logger) StandardWriter(*hclog.StandardLoggerOptions) io.Writer { return l }

// Write takes one line of a standard logger.
func (l *logger) Write(p []byte) (int, error) {
	l.Log(hclog.Info, strings.TrimRight(string(p), "\n"))
	return len(p), nil
}
