package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"time"
)

// readLimit bounds what one page waits for Redis.
const readLimit = 5 * time.Second

// content is what one page shows.
type content struct {
	title   string // of the page and of its window
	section string // its entry in the navigation
	name    string // of its template
	view    any
	lacks   []part // parts that could not be read
	status  int    // 0: 200, or 503 where something is lacking
	still   bool   // it is not refreshed: it holds a form, or will not change

	redirect string // the path of another page to go to in place of this one
}

// reader reads what a page shows; it never fails, but says what is lacking.
type reader func(ctx context.Context, r *http.Request) content

// shell is what templates/layout.html shows around the content of a page.
type shell struct {
	Title, Section string
	Now            time.Time
	Zone           string
	Rehearsal      bool
	Live           string // where its changes come from; "": it has none
	Done           string // what a person has just done here
	Lacks          []part
	CSRF           string
	Fragment       bool
	View           any
}

// templateNames are the pages' templates, without .html.
var templateNames = []string{
	"tonight", "breakers", "batches", "batch", "line", "ladders", "guard", "fleet", "confirm", "message",
}

// parsePages makes a set of templates for each page: the shell, the partials, and
// its own.
func (d *Dashboard) parsePages() error {
	base, err := template.New("layout.html").Funcs(d.funcs()).ParseFS(files, "templates/layout.html", "templates/parts_*.html")
	if err != nil {
		return fmt.Errorf("parse dashboard templates: %w", err)
	}
	d.pages = map[string]*template.Template{}
	for _, name := range templateNames {
		set, err := template.Must(base.Clone()).ParseFS(files, "templates/"+name+".html") // it was not executed yet
		if err != nil {
			return fmt.Errorf("parse dashboard templates: %w", err)
		}
		d.pages[name] = set
	}
	return nil
}

// page serves what a reader reads.
func (d *Dashboard) page(read reader) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readLimit)
		defer cancel()
		d.write(w, r, read(ctx, r))
	}
}

// fragmentKey marks the request of a stream for a page's inner part alone.
type fragmentKey struct{}

// write renders a page, so that an error leaves no half of it.
func (d *Dashboard) write(w http.ResponseWriter, r *http.Request, c content) {
	if c.redirect != "" {
		http.Redirect(w, r, d.door.Path(c.redirect), c.status)
		return
	}
	_, fragment := r.Context().Value(fragmentKey{}).(bool)
	s := shell{
		Title: c.title, Section: c.section, Now: d.opts.Now(), Zone: d.opts.Now().In(d.opts.Location).Format("MST"),
		Rehearsal: d.opts.Rehearsal, Done: done(r), Lacks: c.lacks, CSRF: d.door.Token(r), Fragment: fragment, View: c.view,
	}
	if !c.still {
		s.Live = d.livePath(r)
	}
	name := "layout.html"
	if fragment {
		name = "inner"
	}
	var out bytes.Buffer
	if err := d.pages[c.name].ExecuteTemplate(&out, name, s); err != nil {
		d.opts.Logger.Error("render dashboard", "page", c.name, "error", err)
		http.Error(w, "the page cannot be rendered; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	switch {
	case c.status != 0:
		w.WriteHeader(c.status)
	case len(c.lacks) > 0:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = out.WriteTo(w) // the reader went away: nothing to be done
}

// message is a page of a few words.
type message struct {
	Text, Hint string
	Back       string // path of the page to go on to
	BackTo     string // its name
}

// tell is a page that says something in place of what was asked for.
func tell(status int, title, section string, m message) content {
	return content{title: title, section: section, name: "message", view: m, status: status, still: true}
}

// notFound answers for paths that are no page.
func (d *Dashboard) notFound(_ context.Context, _ *http.Request) content {
	return tell(http.StatusNotFound, "No such page", "", message{
		Text: "There is no such page here.", Back: "/", BackTo: "Tonight",
	})
}
