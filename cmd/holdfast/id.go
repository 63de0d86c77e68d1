package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/ids"
	"holdfast/session/words"
)

// layoutFlags are the flags for the layout and the text form of ids.
type layoutFlags struct {
	name, form, epoch string
	rollbackBits      int
}

// layout is the layout and the text form that the flags choose.
type layout struct {
	ids.Layout

	// form is the form of printed ids. If the user chose it, it is the form of arguments too.
	form   ids.Form
	chosen bool
}

// register adds the flags. byDefault is the name of the default layout.
func (f *layoutFlags) register(cmd *cobra.Command, byDefault string) {
	flags := cmd.Flags()
	flags.StringVar(&f.name, "layout", byDefault, "meaning of the ids' bits: holdfast, zookeeper or snowflake")
	flags.StringVar(&f.form, "form", "", fmt.Sprintf(
		"text form of the ids, one of %v (default: decimal for snowflakes, otherwise 0x; 0x... is read in both cases)",
		ids.Forms()))
	flags.StringVar(&f.epoch, "epoch", "", "snowflakes: start of their clock, as a time or in Unix milliseconds "+
		"(default: Twitter's, 2010-11-04T01:42:54.657Z)")
	flags.Var(arg.Whole(&f.rollbackBits, 0, 0, ids.MaxRollbackBits), "rollback-bits",
		fmt.Sprintf("snowflakes: bits of the sequence that count rollbacks of the clock, 0 to %d",
			ids.MaxRollbackBits))
	completeWords(cmd, "layout", "holdfast", "zookeeper", "snowflake")
	forms := make([]string, 0, len(ids.Forms()))
	for _, form := range ids.Forms() {
		forms = append(forms, form.String())
	}
	completeWords(cmd, "form", forms...)
}

// layout reads the flags.
func (f *layoutFlags) layout() (layout, error) {
	var l layout
	switch f.name {
	case "holdfast":
		l.Layout = ids.HoldfastLayout()
	case "zookeeper":
		l.Layout = ids.ZooKeeperLayout()
	case "snowflake":
		epoch, err := f.epochTime()
		if err != nil {
			return layout{}, err
		}
		if l.Layout, err = ids.SnowflakeLayout(epoch, f.rollbackBits); err != nil {
			return layout{}, flagError(err)
		}
	default:
		return layout{}, usage("--layout %q: want holdfast, zookeeper or snowflake", f.name)
	}
	if f.name != "snowflake" && (f.epoch != "" || f.rollbackBits != 0) {
		return layout{}, usage("--epoch and --rollback-bits: only snowflakes have them")
	}
	l.form, l.chosen = l.Usual(), f.form != ""
	if !l.chosen {
		return l, nil
	}
	form, err := ids.ParseForm(f.form)
	l.form = form
	return l, flagError(err)
}

// epochTime returns the user's epoch, or the zero time for the default.
func (f *layoutFlags) epochTime() (time.Time, error) {
	if f.epoch == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, f.epoch)
	if ms, notMS := strconv.ParseInt(f.epoch, 10, 64); notMS == nil {
		t, err = time.UnixMilli(ms), nil
	}
	switch {
	case err != nil:
		return time.Time{}, usage("--epoch %q: want a time such as 2015-01-01T00:00:00Z, or Unix milliseconds", f.epoch)
	case t.IsZero(): // means the default
		return time.Time{}, usage("--epoch: want whole milliseconds, 1970 to 2999")
	}
	return t, nil
}

// flagError turns a refused field into a usage error about the flag of the same name.
func flagError(err error) error {
	if field, ok := errors.AsType[*session.FieldError](err); ok {
		return usage("--%s: want %s", strings.ReplaceAll(field.Field, "_", "-"), field.Limit)
	}
	return err
}

// read reads the text of an id. Unless the user chose a form, a text with 0x is hexadecimal.
func (l layout) read(text string) (uint64, error) {
	if l.chosen || l.Usual() != ids.Hex0x && !strings.HasPrefix(strings.ToLower(text), "0x") {
		return l.form.Parse(text)
	}
	id, err := session.ParseID(text)
	return uint64(id), err
}

func idDecode(out *printer) *cobra.Command {
	var flags layoutFlags
	cmd := &cobra.Command{
		Use: "decode ID...", Short: "Show the parts of ids, such as node, time and counter", Args: arg.Some("ID"),
		Example: `  holdfast id decode 0x0100000000010000
  holdfast id decode --layout zookeeper 0x10000295bb80000
  holdfast id decode --layout snowflake 1541815603606036480`,
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := flags.layout()
			if err != nil {
				return err
			}
			views := make([]idView, 0, len(args))
			for _, text := range args {
				if isToken(text) {
					return usage(tokenAsID)
				}
				id, err := l.read(text)
				if err != nil {
					return usage("ID %q: %w", text, err)
				}
				view, err := l.view(id)
				if err != nil {
					return usage("ID %q: %w", text, err)
				}
				views = append(views, view)
			}
			return out.print(views, func() string { return l.table(views) })
		},
	}
	flags.register(cmd, ids.HoldfastLayout().Name())
	return cmd
}

func idEncode(out *printer) *cobra.Command {
	var flags layoutFlags
	var at string
	values := map[string]*uint64{}
	cmd := &cobra.Command{
		Use: "encode", Short: "Make an id from its parts", Args: noArgs,
		Long: `Make an id from its parts. Parts without a flag are 0. Use such an id to read logs and in tests:
nothing makes it unique.`,
		Example: `  holdfast id encode --node 1 --time 2026-11-21T12:00:00Z --counter 7
  holdfast id encode --layout snowflake --time 2022-06-28T16:07:40.105Z --datacenter 11 --worker 26`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := flags.layout()
			if err != nil {
				return err
			}
			given := changed(cmd, values)
			if at != "" {
				if given["ms"], err = l.ms(at); err != nil {
					return err
				}
			}
			id, err := l.Encode(given)
			if err != nil {
				return flagError(err)
			}
			view, err := l.view(id)
			if err != nil {
				return err
			}
			return out.print([]idView{view}, func() string { return l.table([]idView{view}) })
		},
	}
	flags.register(cmd, ids.HoldfastLayout().Name())
	registerFields(cmd, values)
	cmd.Flags().StringVar(&at, "time", "", "holdfast, snowflake: time, in place of --ms, as in 2026-11-21T12:00:00Z")
	cmd.MarkFlagsMutuallyExclusive("ms", "time")
	return cmd
}

// registerFields adds a flag for every field of every layout, and puts the address of its value into values. A flag
// takes each value that is valid in some layout; the layout that the user chose checks the value again.
func registerFields(cmd *cobra.Command, values map[string]*uint64) {
	snowflake, err := ids.SnowflakeLayout(time.Time{}, 1)
	if err != nil {
		panic(err) // 1 rollback bit is valid
	}
	widest, err := ids.SnowflakeLayout(time.Time{}, 0) // its sequence has the most bits
	if err != nil {
		panic(err) // 0 rollback bits are valid
	}
	meanings := map[string][]string{}
	lowest, highest := map[string]uint64{}, map[string]uint64{}
	for _, l := range []ids.Layout{ids.HoldfastLayout(), ids.ZooKeeperLayout(), snowflake, widest} {
		for _, f := range l.Fields() {
			meaning := l.Name() + ": " + f.Meaning
			if !slices.Contains(meanings[f.Name], meaning) {
				meanings[f.Name] = append(meanings[f.Name], meaning)
			}
			if lo, known := lowest[f.Name]; !known || f.Min < lo {
				lowest[f.Name] = f.Min
			}
			highest[f.Name] = max(highest[f.Name], f.Max)
		}
	}
	for name, of := range meanings {
		values[name] = new(uint64)
		cmd.Flags().Var(arg.Whole(values[name], 0, lowest[name], highest[name]), name, strings.Join(of, "; "))
	}
}

// changed returns the values of the flags that the user has given.
func changed(cmd *cobra.Command, values map[string]*uint64) map[string]uint64 {
	given := map[string]uint64{}
	for name, v := range values {
		if cmd.Flags().Changed(name) {
			given[name] = *v
		}
	}
	return given
}

// ms returns the milliseconds of the layout's clock at a time.
func (l layout) ms(at string) (uint64, error) {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return 0, usage("--time %q: want a time such as 2026-11-21T12:00:00Z", at)
	}
	ms, err := l.MS(t)
	return ms, flagError(err)
}

// idView is a decoded id. In JSON it is an object of the id's text, its fields by name, the time after ms if the layout
// has a wall clock, and notes if there are any.
type idView struct {
	ids.Decoded

	text string
}

func (l layout) view(id uint64) (idView, error) {
	d, err := l.Decode(id)
	return idView{d, l.form.Format(id)}, err
}

// MarshalJSON writes the fields in the order of the layout.
func (v idView) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	member := func(name string, value any) error {
		text, err := json.Marshal(value)
		if err == nil {
			_, err = fmt.Fprintf(&b, ",%q:%s", name, text)
		}
		return err
	}
	err := member("id", v.text)
	for _, f := range v.Values {
		err = errors.Join(err, member(f.Name, f.Value))
		if f.Name == "ms" && !v.Time.IsZero() {
			err = errors.Join(err, member("time", v.Time))
		}
	}
	if len(v.Notes) > 0 {
		err = errors.Join(err, member("notes", v.Notes))
	}
	b.WriteByte('}')
	text := b.Bytes()
	text[0] = '{' // in place of the first comma
	return text, err
}

// table lays out ids of the layout, with their notes below.
func (l layout) table(views []idView) string {
	headers := []string{"ID"}
	for _, f := range l.Fields() {
		switch {
		case f.Name != "ms":
			headers = append(headers, strings.ToUpper(f.Name))
		case l.Epoch().IsZero():
			headers = append(headers, "CLOCK")
		default:
			headers = append(headers, "TIME")
		}
	}
	rows := make([][]string, 0, len(views))
	var notes strings.Builder
	for _, v := range views {
		row := []string{v.text}
		for _, f := range v.Values {
			switch {
			case f.Name != "ms":
				row = append(row, number(f.Value))
			case v.Time.IsZero():
				row = append(row, words.Span(v.Elapsed))
			default:
				row = append(row, words.Moment(v.Time))
			}
		}
		rows = append(rows, row)
		for _, note := range v.Notes {
			notes.WriteString("\n" + v.text + ": " + note)
		}
	}
	return columns(headers, rows) + notes.String()
}
