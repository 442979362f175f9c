package dashboard

import (
	"crypto/tls"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/dashboard/internal/door"
)

//go:embed templates static
var files embed.FS

// Options are the parts of a dashboard. Those without a default are required.
type Options struct {
	Batches  Batches
	Breakers Breakers
	Guards   Guards
	Paces    Paces
	Averages Averages
	Fleet    Fleet
	Minutes  Minutes
	Changes  Changes
	// Keys are the breakers to show, in the order of the page, and Settings what
	// each of them goes by.
	Keys     []breaker.Key
	Settings func(breaker.Key) breaker.Settings
	// Ladders are those of the configuration, in the order of the page.
	Ladders []Ladder
	// Redis is where asynqmon finds the queues. Each call of its
	// MakeRedisClient must give a new client: Close closes them.
	Redis asynq.RedisConnOpt
	// DecodeTask reads the reference in a task's payload.
	DecodeTask func(payload []byte) (batch.Ref, error)
	// Addr is where it will listen, "host:port"; empty: on loopback. An address that
	// others can reach needs a Token.
	Addr string
	// Token is what people log in with; empty: everyone is let in.
	Token string
	// BasePath is the path under which it is served, e.g. /nightshift; empty: /.
	BasePath string
	// CertFile and KeyFile are PEM files to speak TLS with; both empty: plain HTTP.
	CertFile, KeyFile string
	// QueuesWrite lets the pages under /queues change something.
	QueuesWrite bool
	// ShowContent lets /queues show requests and results, not only references.
	ShowContent bool
	// Rehearsal says on the page that the built-in simulator answers.
	Rehearsal bool
	// Location is the zone of the times. Defaults to time.Local.
	Location *time.Location
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Now defaults to time.Now.
	Now func() time.Time
}

// withDefaults returns the options with every default filled in.
func (o Options) withDefaults() Options {
	if o.Location == nil {
		o.Location = time.Local
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// validate returns all that is missing.
func (o Options) validate() error {
	var errs []error
	for _, part := range []struct {
		name    string
		missing bool
	}{
		{"Batches", o.Batches == nil},
		{"Breakers", o.Breakers == nil},
		{"Guards", o.Guards == nil},
		{"Paces", o.Paces == nil},
		{"Averages", o.Averages == nil},
		{"Fleet", o.Fleet == nil},
		{"Minutes", o.Minutes == nil},
		{"Changes", o.Changes == nil},
		{"Settings", o.Settings == nil},
		{"Redis", o.Redis == nil},
		{"DecodeTask", o.DecodeTask == nil},
	} {
		if part.missing {
			errs = append(errs, fmt.Errorf("make dashboard: option %s is required", part.name))
		}
	}
	return errors.Join(errs...)
}

// Dashboard serves the web pages. It is safe for concurrent use.
type Dashboard struct {
	opts        Options
	door        *door.Door
	certificate *door.Certificate // nil: plain HTTP
	pages       map[string]*template.Template
	readers     *http.ServeMux // of the pages that can be followed
	live        *live
	queues      *asynqmon.HTTPHandler
	handler     http.Handler
}

// New makes a dashboard. It opens connections to Redis lazily; Close ends them.
func New(opts Options) (*Dashboard, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	d := &Dashboard{opts: opts.withDefaults(), live: newLive()}
	if err := d.makeDoor(); err != nil {
		return nil, err
	}
	if err := d.parsePages(); err != nil {
		return nil, err
	}
	d.queues = newQueues(d.opts)
	console, err := newConsole(d.queues, d.door, d.opts.QueuesWrite)
	if err != nil {
		return nil, errors.Join(err, d.queues.Close())
	}
	d.handler = d.door.Protect(d.routes(console))
	return d, nil
}

// TLS returns what to serve with; nil: plain HTTP.
func (d *Dashboard) TLS() *tls.Config {
	if d.certificate == nil {
		return nil
	}
	return d.certificate.Config()
}

// routes are all paths. Pages stand in a mux of their own, from which the streams
// render them too.
func (d *Dashboard) routes(console http.Handler) http.Handler {
	d.readers = http.NewServeMux()
	for path, read := range map[string]reader{
		"GET /{$}":                       d.tonight,
		"GET /batches":                   d.batchesPage,
		"GET /batches/{id}":              d.batchPage,
		"GET /batches/{id}/lines/{line}": d.linePage,
		"GET /breakers":                  d.breakersPage,
		"GET /ladders":                   d.laddersPage,
		"GET /guard":                     d.guardPage,
		"GET /fleet":                     d.fleetPage,
		"/":                              d.notFound,
	} {
		d.readers.Handle(path, d.page(read))
	}
	mux := http.NewServeMux()
	mux.Handle("/", d.readers)
	mux.Handle("/breakers/force", d.change(d.askForce, d.force))
	mux.Handle("/guard/release", d.change(d.askRelease, d.release))
	mux.Handle("/batches/{id}/cancel", d.change(d.askCancel, d.cancel))
	mux.Handle("/batches/{id}/retry", d.change(d.askRetry, d.retry))
	mux.HandleFunc("GET /live", d.serveLive)
	mux.HandleFunc("GET /charts/{name}", d.serveChart)
	mux.HandleFunc("GET /static/{name}", serveStatic)
	mux.Handle(queuesRoot+"/", console)
	return mux
}

// ServeHTTP answers one request.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// EndStreams ends the streams of all pages that are followed, and lets no other
// begin: a server that shuts down would wait for them.
func (d *Dashboard) EndStreams() { d.live.end() }

// Close ends all streams and closes asynqmon's connections to Redis. No request may
// follow.
func (d *Dashboard) Close() error {
	d.EndStreams()
	if err := d.queues.Close(); err != nil {
		return fmt.Errorf("close queue console: %w", err)
	}
	return nil
}

// serveStatic serves the embedded files of the pages.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, files, "static/"+r.PathValue("name"))
}
