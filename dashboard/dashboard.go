package dashboard

import (
	"context"
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

// Batches is what the dashboard needs of package batch.
type Batches interface {
	// List returns all batches, newest first.
	List(ctx context.Context) ([]batch.Status, error)
	// Request returns a line as it was submitted, or batch.ErrNotFound.
	Request(ctx context.Context, ref batch.Ref) (batch.Line, error)
}

// Breakers is what the dashboard needs of package breaker.
type Breakers interface {
	// List returns the state of the given breakers, in their order.
	List(ctx context.Context, keys []breaker.Key) ([]breaker.Status, error)
}

// Options are the parts of a dashboard. Those without a default are required.
type Options struct {
	Batches  Batches
	Breakers Breakers
	Guards   Guards
	// Paces are shown with the models' breakers; nil: they are not.
	Paces Paces
	// Keys are the breakers to show, in the order of the page.
	Keys []breaker.Key
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
		{"Redis", o.Redis == nil},
		{"DecodeTask", o.DecodeTask == nil},
	} {
		if part.missing {
			errs = append(errs, fmt.Errorf("make dashboard: option %s is required", part.name))
		}
	}
	return errors.Join(errs...)
}

// Dashboard serves the web page. It is safe for concurrent use.
type Dashboard struct {
	opts        Options
	door        *door.Door
	certificate *door.Certificate // nil: plain HTTP
	page        *template.Template
	queues      *asynqmon.HTTPHandler
	handler     http.Handler
}

// New makes a dashboard. It opens connections to Redis lazily; Close ends them.
func New(opts Options) (*Dashboard, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	d := &Dashboard{opts: opts.withDefaults()}
	if err := d.makeDoor(); err != nil {
		return nil, err
	}
	page, err := template.New("page.html").Funcs(d.funcs()).ParseFS(files, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("parse dashboard templates: %w", err)
	}
	d.page = page
	d.queues = newQueues(d.opts)
	console, err := newConsole(d.queues, d.door, d.opts.QueuesWrite)
	if err != nil {
		return nil, errors.Join(err, d.queues.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", d.servePage)
	mux.HandleFunc("/static/{name}", serveStatic)
	mux.Handle(queuesRoot+"/", console)
	d.handler = d.door.Protect(mux)
	return d, nil
}

// TLS returns what to serve with; nil: plain HTTP.
func (d *Dashboard) TLS() *tls.Config {
	if d.certificate == nil {
		return nil
	}
	return d.certificate.Config()
}

// ServeHTTP answers one request.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// Close closes asynqmon's connections to Redis. No request may follow.
func (d *Dashboard) Close() error {
	if err := d.queues.Close(); err != nil {
		return fmt.Errorf("close queue console: %w", err)
	}
	return nil
}

// serveStatic serves the embedded files of the page.
func serveStatic(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, files, "static/"+r.PathValue("name"))
}
