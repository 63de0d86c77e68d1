package console

import (
	"encoding/csv"
	"encoding/json"
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

// exporting serves certificates as a file. They are written as they come: the connection breaks if there is an error,
// because a file that ends early must not look whole.
func (c *Console) exporting(form func(w http.ResponseWriter) export) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.with(w, r, func(q *request) {
			o, _, err := graves(q)
			if err != nil {
				c.fail(w, r, err)
				return
			}
			out := form(w)
			if err = errors.Join(eachDeath(q, o, out.one), out.end()); err != nil {
				c.logger.Warn("exporting certificates", "error", err)
				panic(http.ErrAbortHandler)
			}
		})
	}
}

// export writes certificates one by one.
type export struct {
	one func(*session.Certificate) error
	end func() error
}

// eachDeath calls one with all certificates that match, [maxExport] at most.
func eachDeath(q *request, o client.DeathOptions, one func(*session.Certificate) error) error {
	o.PageSize = session.MaxPage
	for left := maxExport; left > 0; {
		page, err := q.caller.Deaths(q.ctx, o)
		if err != nil {
			return err
		}
		for i := range page.Certificates {
			if err := one(&page.Certificates[i]); err != nil {
				return err
			}
		}
		left -= len(page.Certificates)
		if o.PageToken = page.Next; page.Next == "" {
			break
		}
	}
	return nil
}

func deathsCSV(w http.ResponseWriter) export {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="deaths.csv"`)
	out := csv.NewWriter(w)
	err := out.Write([]string{
		"id", "cause", "ended_at", "owner", "term", "index", "last_touch_ms_before", "opened_at", "timeout_ms", "labels",
		"late_ms", "ephemerals", "by", "why",
	})
	one := func(c *session.Certificate) error {
		return out.Write([]string{
			c.ID.String(), c.Cause.String(), words.Moment(c.EndedAt), fmt.Sprint(c.Owner), fmt.Sprint(c.Term),
			fmt.Sprint(c.Index), fmt.Sprint(c.LastTouchAge.Milliseconds()), words.Moment(c.Story.OpenedAt),
			fmt.Sprint(c.Story.Timeout.Milliseconds()), cell(words.Labels(c.Story.Labels)),
			fmt.Sprint(c.Story.Late.Milliseconds()), fmt.Sprint(c.Left.Ephemerals), cell(c.Story.By), cell(c.Story.Why),
		})
	}
	return export{one: one, end: func() error {
		out.Flush()
		return errors.Join(err, out.Error())
	}}
}

// cell keeps a spreadsheet from taking a stranger's text for a formula.
func cell(s string) string {
	if s != "" && s != "-" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

// death is a certificate in JSON, one on a line.
type death struct {
	ID           string            `json:"id"`
	Cause        string            `json:"cause"`
	EndedAt      time.Time         `json:"ended_at"`
	Owner        session.Node      `json:"owner"`
	Term         uint64            `json:"term"`
	Index        uint64            `json:"index"`
	LastTouchMS  *int64            `json:"last_touch_ms_before,omitempty"`
	OpenedAt     time.Time         `json:"opened_at,omitzero"`
	TimeoutMS    int64             `json:"timeout_ms,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	LateMS       int64             `json:"late_ms"`
	Ephemerals   uint64            `json:"ephemerals"`
	By           string            `json:"by,omitempty"`
	Why          string            `json:"why,omitempty"`
	Explanations []string          `json:"in_words"`
}

func deathsJSON(w http.ResponseWriter) export {
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Content-Disposition", `attachment; filename="deaths.jsonl"`)
	out := json.NewEncoder(w)
	one := func(c *session.Certificate) error {
		d := death{
			ID: c.ID.String(), Cause: c.Cause.String(), EndedAt: c.EndedAt, Owner: c.Owner, Term: c.Term, Index: c.Index,
			OpenedAt: c.Story.OpenedAt, TimeoutMS: c.Story.Timeout.Milliseconds(), LateMS: c.Story.Late.Milliseconds(),
			Ephemerals: c.Left.Ephemerals, By: c.Story.By, Why: c.Story.Why, Explanations: words.Ended(c),
		}
		if c.LastTouchAge >= 0 {
			d.LastTouchMS = new(c.LastTouchAge.Milliseconds())
		}
		if len(c.Story.Labels) > 0 {
			d.Labels = make(map[string]string, len(c.Story.Labels))
			for _, l := range c.Story.Labels {
				d.Labels[l.Key] = l.Value
			}
		}
		return out.Encode(d)
	}
	return export{one: one, end: func() error { return nil }}
}
