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

// maxExport bounds an export: a cluster keeps as many certificates.
const maxExport = 100_000

// exportWriteTimeout bounds the writing of one page of certificates, about 500 KB: enough for 70 kbit/s. A whole export
// is bounded by [maxExport] only, so that a slow link gets its file too.
const exportWriteTimeout = time.Minute

// exportDeaths serves certificates as a CSV file.
func (c *Console) exportDeaths(w http.ResponseWriter, r *http.Request) {
	c.serve(w, r, func(q *request) {
		o, _, err := deathQuery(q)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		c.export(q.ctx, w, r, &exportFile{o, q.caller.Deaths})
	})
}

// readDeaths reads a page of certificates: [client.Client.Deaths].
type readDeaths func(context.Context, client.DeathOptions) (client.DeathPage, error)

// exportFile is a requested export.
type exportFile struct {
	options client.DeathOptions
	read    readDeaths
}

// next reads the next page of certificates within [requestTimeout].
func (f *exportFile) next(ctx context.Context) (client.DeathPage, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	page, err := f.read(ctx, f.options)
	f.options.PageToken = page.Next
	return page, err
}

// export writes all certificates that match, [maxExport] at most. It reads the first page before the response starts:
// an error there is reported as on any page. An error on a later page breaks the connection, because a truncated file
// must not look complete. A file that reaches the bound says so in its last line.
func (c *Console) export(ctx context.Context, w http.ResponseWriter, r *http.Request, file *exportFile) {
	file.options.PageSize = session.MaxPage
	page, err := file.next(ctx)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // else it would end the request; an error means that there is none
	out := newCSV(w, scopeOf(&file.options))
	for left := maxExport; err == nil; page, err = file.next(ctx) {
		_ = control.SetWriteDeadline(time.Now().Add(exportWriteTimeout)) // as above
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

// scopeOf names the scope of options as the page's form does.
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

// newCSV starts the file with its headers.
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
			fmt.Sprint(c.Index), milliseconds(c.LastTouchAge), words.Moment(c.Story.OpenedAt),
			milliseconds(c.Story.Timeout), csvCell(words.Labels(c.Story.Labels)), milliseconds(c.Story.Late),
			fmt.Sprint(c.Left.Ephemerals),
			csvCell(c.Story.By), csvCell(c.Story.Why), f.scope,
		})
	}
	f.out.Flush()
	return f.out.Error()
}

// cut writes the last line of a file that leaves out further certificates. The line has as many cells as the others.
func (f csvFile) cut() error {
	line := make([]string, len(csvColumns()))
	line[0] = fmt.Sprintf("This file ends at its limit of %d deaths. To list older matches, run "+
		`"holdfast session deaths --until AGE" with the age of the last death above.`, maxExport)
	_ = f.out.Write(line) // Error returns the error
	f.out.Flush()
	return f.out.Error()
}

// milliseconds formats a duration. A negative duration is unknown, and becomes the empty text.
func milliseconds(d time.Duration) string {
	if d < 0 {
		return ""
	}
	return fmt.Sprint(d.Milliseconds())
}

// csvCell quotes foreign text that a spreadsheet would read as a formula.
func csvCell(s string) string {
	if s != "" && s != "-" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
