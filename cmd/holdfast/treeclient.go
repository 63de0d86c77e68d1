package main

import (
	"context"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
	"holdfast/tree"
)

// digestVariable has a name and a password for access lists.
const digestVariable = "HOLDFAST_DIGEST"

// ofTree adds the flags that all commands of the tree share.
func (c *treeCommands) ofTree(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringArrayVar(&c.target.digests, "digest", nil,
		"NAME:PASSWORD by which access lists know this client; may be repeated (environment, which other users "+
			"of the machine cannot see: "+digestVariable+")")
	return cmd
}

// readFlags say how new the answer to a read must be.
type readFlags struct {
	target       *target
	linearizable bool
}

func (f *readFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.linearizable, "linearizable", false,
		"show all that was committed when the command began: costs a question to the leader")
	f.target.registerReadOnly(cmd)
	cmd.MarkFlagsMutuallyExclusive("linearizable", "read-only")
}

func (f *readFlags) options() []client.ReadOption {
	switch {
	case f.linearizable:
		return []client.ReadOption{client.Linearizable()}
	case f.target.readOnly:
		return []client.ReadOption{client.AllowStale()}
	default:
		return nil
	}
}

// onePath checks the arguments of commands that take a path.
func onePath(cmd *cobra.Command, args []string) error {
	if err := arg.One("PATH")(cmd, args); err != nil {
		return err
	}
	return pathGiven(args[0])
}

// pathGiven returns a usage error unless an argument is a path.
func pathGiven(path string) error {
	if err := tree.CheckPath(path); err != nil {
		return usageError{err}
	}
	return nil
}

// isRefused reports whether the tree has refused an operation for a reason.
func isRefused(err error, code tree.Code) bool {
	return errors.Is(err, &tree.RefusedError{Code: code})
}

// limited runs one call with its time limit.
func limited[R any](ctx context.Context, t *target, call func(context.Context) (R, error)) (R, error) {
	calling, cancel := t.bounded(ctx)
	defer cancel()
	return call(calling)
}

// isTerminal reports whether a stream is a terminal, at which people sit.
func isTerminal(stream any) bool {
	file, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd())) //nolint:gosec // a descriptor is small
}

// width returns the number of columns of a stream that is a terminal, or else 0.
func width(stream any) int {
	file, ok := stream.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	columns, _, _ := term.GetSize(int(file.Fd())) //nolint:gosec // a descriptor is small
	return max(columns, 0)
}

// printData writes data as it is, or, for a terminal, with everything escaped that the terminal could obey.
func (p *printer) printData(data []byte) error {
	if !p.terminal {
		_, err := p.stdout.Write(data)
		return err
	}
	return writeText(p.stdout, strings.TrimSuffix(shownData(data), "\n"))
}

// shownData returns data as text for a terminal: lines and tabs stay, and what is not printable is written as in a
// string of Go.
func shownData(data []byte) string {
	var b strings.Builder
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == '\n', r == '\t', strconv.IsPrint(r) && (r != utf8.RuneError || size > 1):
			b.WriteRune(r)
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(data[0])|0x100, 16)[1:])
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		data = data[size:]
	}
	return b.String()
}

// statView is what is known of an entry, in JSON.
type statView struct {
	Kind             string    `json:"kind"`
	Version          int64     `json:"version"`
	Bytes            int       `json:"bytes"`
	Children         int       `json:"children"`
	ChildrenVersion  int64     `json:"children_version"`
	ACLVersion       int64     `json:"acl_version"`
	Owner            *idText   `json:"owner,omitempty"` // absent for an entry that is not ephemeral
	Created          string    `json:"created"`
	Modified         string    `json:"modified"`
	ChildrenModified string    `json:"children_modified"`
	CreatedAt        time.Time `json:"created_at"`
	ModifiedAt       time.Time `json:"modified_at"`
	// RemainingMS is how long the entry has left at most; absent for one that does not end by itself, or not now.
	RemainingMS *int64 `json:"remaining_ms,omitempty"`
}

func viewStat(s tree.Stat) *statView {
	v := &statView{
		Kind: s.Kind.String(), Version: s.Version, Bytes: s.Bytes, Children: s.Children,
		ChildrenVersion: s.ChildrenVersion, ACLVersion: s.ACLVersion, Created: s.Created.String(),
		Modified: s.Modified.String(), ChildrenModified: s.ChildrenModified.String(), CreatedAt: s.CreatedAt,
		ModifiedAt: s.ModifiedAt,
	}
	if s.Owner != 0 {
		v.Owner = new(idText(s.Owner))
	}
	if s.Due != 0 {
		v.RemainingMS = new(s.Remaining.Milliseconds())
	}
	return v
}

// remainingText says how long an entry has left, at most.
func remainingText(s tree.Stat) string {
	if s.Due == 0 {
		return "-"
	}
	return words.Span(s.Remaining)
}

func ownerText(owner uint64) string {
	if owner == 0 {
		return "-"
	}
	return session.ID(owner).String()
}

// statRows are the rows of [properties] of an entry.
func statRows(path string, s tree.Stat) [][]string {
	return [][]string{
		{"path", path},
		{"kind", s.Kind.String()},
		{"version", strconv.FormatInt(s.Version, 10)},
		{"size", words.Bytes(uint64(s.Bytes))},
		{"children", strconv.Itoa(s.Children)},
		{"owner", ownerText(s.Owner)},
		{"remaining", remainingText(s)},
		{"created", s.Created.String() + "  " + words.Moment(s.CreatedAt)},
		{"modified", s.Modified.String() + "  " + words.Moment(s.ModifiedAt)},
		{"children modified", s.ChildrenModified.String()},
		{"children version", strconv.FormatInt(s.ChildrenVersion, 10)},
		{"list version", strconv.FormatInt(s.ACLVersion, 10)},
	}
}

// entryView is an entry in JSON. Data is in base64, and absent for null.
type entryView struct {
	Path string    `json:"path"`
	Data *string   `json:"data,omitempty"`
	Stat *statView `json:"stat"`
}

func viewEntry(path string, e client.Entry) entryView {
	v := entryView{Path: path, Stat: viewStat(e.Stat)}
	if e.Data != nil {
		v.Data = new(base64.StdEncoding.EncodeToString(e.Data))
	}
	return v
}
