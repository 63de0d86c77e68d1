package console

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/session/words"
)

// maxExport bounds an export: all certificates that a cluster keeps.
const maxExport = 100_000

// exportWrite bounds the writing of one page of certificates, which has about 500 KB: enough for 70 kbit/s. All pages
// together have no bound but [maxExport]: a slow link gets its file too.
const exportWrite = time.Minute

// exportDeaths serves certificates as a CSV file.
func (c *Console) exportDeaths(w http.ResponseWriter, r *http.Request) {
	c.called(w, r, func(q *request) {
		o, _, err := graves(q)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		c.export(q.ctx, w, r, &exported{o, q.caller.Deaths})
	})
}

// readDeaths reads a page of certificates: [client.Client.Deaths].
type readDeaths func(context.Context, client.DeathOptions) (client.DeathPage, error)

// exported is a file that was asked for.
type exported struct {
	o    client.DeathOptions
	read readDeaths
}

// next reads the next page, which has as long as a page of the console.
func (f *exported) next(ctx context.Context) (client.DeathPage, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	page, err := f.read(ctx, f.o)
	f.o.PageToken = page.Next
	return page, err
}

// export writes all certificates that match, [maxExport] at most. It reads the first page before it begins to
// answer: an error there is answered as on any page. Later pages are written as they come. An error then breaks the
// connection, because a file that ends early must not look whole. One that ends at the bound says so in its last line.
func (c *Console) export(ctx context.Context, w http.ResponseWriter, r *http.Request, file *exported) {
	file.o.PageSize = session.MaxPage
	page, err := file.next(ctx)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // it would end the request; an error means that the connection has none
	out := newCSV(w, scopeOf(&file.o))
	for left := maxExport; err == nil; page, err = file.next(ctx) {
		_ = control.SetWriteDeadline(time.Now().Add(exportWrite)) // as above
		fits := page.Certificates[:min(len(page.Certificates), left)]
		if err = out.write(fits); err != nil {
			break
		}
		left -= len(fits)
		cut := left == 0 && (page.Next != "" || len(fits) < len(page.Certificates))
		if cut {
			err = out.cut()
		}
		if err = errors.Join(err, control.Flush()); err != nil {
			break
		}
		if cut || page.Next == "" {
			return
		}
	}
	c.logger.Warn("exporting certificates", "error", err)
	panic(http.ErrAbortHandler)
}

// scopeOf names the kind of sessions that options ask for, as the page's form does.
func scopeOf(o *client.DeathOptions) string {
	if o.Local {
		return "local"
	}
	return "global"
}

// csvFile writes certificates of one scope into a CSV file.
type csvFile struct {
	out   *csv.Writer
	scope string
}

// csvColumns are the headers of the file.
func csvColumns() []string {
	return []string{
		"id", "cause", "ended_at", "owner", "term", "index", "last_touch_ms_before", "opened_at", "timeout_ms", "labels",
		"late_ms", "ephemerals", "by", "why", "scope",
	}
}

// newCSV begins the file with its headers.
func newCSV(w http.ResponseWriter, scope string) csvFile {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="deaths.csv"`)
	f := csvFile{csv.NewWriter(w), scope}
	_ = f.out.Write(csvColumns()) // write returns the error
	return f
}

func (f csvFile) write(all []session.Certificate) error {
	for i := range all {
		c := &all[i]
		_ = f.out.Write([]string{ // Error returns the error
			c.ID.String(), c.Cause.String(), words.Moment(c.EndedAt), fmt.Sprint(c.Owner), fmt.Sprint(c.Term),
			fmt.Sprint(c.Index), known(c.LastTouchAge), words.Moment(c.Story.OpenedAt),
			known(c.Story.Timeout), cell(words.Labels(c.Story.Labels)), known(c.Story.Late), fmt.Sprint(c.Left.Ephemerals),
			cell(c.Story.By), cell(c.Story.Why), f.scope,
		})
	}
	f.out.Flush()
	return f.out.Error()
}

// cut writes the last line of a file that has no room for all that match. It has as many cells as the others.
func (f csvFile) cut() error {
	line := make([]string, len(csvColumns()))
	line[0] = fmt.Sprintf("This file ends at its limit of %d deaths, and older ones match. The command "+
		`"holdfast session deaths" has no limit: with --until, the age of the last death above, it lists the rest.`, maxExport)
	_ = f.out.Write(line) // Error returns the error
	f.out.Flush()
	return f.out.Error()
}

// known is a duration in milliseconds, or empty for a negative one, which is not known.
func known(d time.Duration) string {
	if d < 0 {
		return ""
	}
	return fmt.Sprint(d.Milliseconds())
}

// cell keeps a spreadsheet from taking a stranger's text for a formula.
func cell(s string) string {
	if s != "" && s != "-" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
