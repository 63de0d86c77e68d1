package id

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
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
	cli.CompleteWords(cmd, "layout", "holdfast", "zookeeper", "snowflake")
	forms := make([]string, 0, len(ids.Forms()))
	for _, form := range ids.Forms() {
		forms = append(forms, form.String())
	}
	cli.CompleteWords(cmd, "form", forms...)
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
		return layout{}, cli.Usage("--layout %q: want holdfast, zookeeper or snowflake", f.name)
	}
	if f.name != "snowflake" && (f.epoch != "" || f.rollbackBits != 0) {
		return layout{}, cli.Usage("--epoch and --rollback-bits: only snowflakes have them")
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
		return time.Time{}, cli.Usage("--epoch %q: want a time such as 2015-01-01T00:00:00Z, or Unix milliseconds", f.epoch)
	case t.IsZero(): // means the default
		return time.Time{}, cli.Usage("--epoch: want whole milliseconds, 1970 to 2999")
	}
	return t, nil
}

// flagError turns a refused field into a usage error about the flag of the same name.
func flagError(err error) error {
	if field, ok := errors.AsType[*session.FieldError](err); ok {
		return cli.Usage("--%s: want %s", strings.ReplaceAll(field.Field, "_", "-"), field.Limit)
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
				row = append(row, cli.Number(f.Value))
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
	return cli.Table(headers, rows) + notes.String()
}
