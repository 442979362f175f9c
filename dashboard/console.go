package dashboard

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"nightshift/dashboard/internal/door"
)

// console is asynqmon with what it lacks: a page that calls no other host, a
// policy that holds it to that, a bar that leads back and says what becomes of
// what is deleted, a bound on the size of its pages, and a log of changes.
type console struct {
	next   http.Handler
	door   *door.Door
	write  bool   // changes are let through
	index  []byte // its page, as changed by frame
	policy string
}

// newConsole renders asynqmon's page once and wraps it.
func newConsole(next http.Handler, d *door.Door, write bool) (*console, error) {
	r, err := http.NewRequest(http.MethodGet, d.Path(queuesRoot+"/"), nil)
	if err != nil {
		return nil, fmt.Errorf("render page of queue console: %w", err)
	}
	page := capture{header: http.Header{}, status: http.StatusOK}
	next.ServeHTTP(&page, r)
	if page.status != http.StatusOK {
		return nil, fmt.Errorf("render page of queue console: status %d", page.status)
	}
	index, err := frame(page.body.Bytes(), d, write)
	if err != nil {
		return nil, err
	}
	scripts := inlineScript.FindAllSubmatch(index, -1)
	if len(scripts) == 0 {
		return nil, errors.New("render page of queue console: it has no script")
	}
	return &console{next: next, door: d, write: write, index: index, policy: consolePolicy(scripts)}, nil
}

// frame takes the links to other hosts out of asynqmon's page and puts our bar in.
func frame(page []byte, d *door.Door, write bool) ([]byte, error) {
	page = manifestLink.ReplaceAll(externalLink.ReplaceAll(page, nil), nil)
	bar, err := template.New("console.html").Funcs(template.FuncMap{"path": d.Path, "dict": dict}).ParseFS(files, "templates/console.html", "templates/parts_nav.html")
	if err != nil {
		return nil, fmt.Errorf("parse bar of queue console: %w", err)
	}
	var out bytes.Buffer
	if err := bar.Execute(&out, struct{ Write bool }{write}); err != nil {
		return nil, fmt.Errorf("render bar of queue console: %w", err)
	}
	style := fmt.Sprintf(`<link rel="stylesheet" href="%s"><link rel="stylesheet" href="%s"></head>`, d.Path("/static/top.css"), d.Path("/static/console.css"))
	for _, place := range []struct{ at, put string }{{"</head>", style}, {"<body>", "<body>" + out.String()}} {
		if bytes.Count(page, []byte(place.at)) != 1 {
			return nil, fmt.Errorf("render page of queue console: it has no place for our bar at %s", place.at)
		}
		page = bytes.Replace(page, []byte(place.at), []byte(place.put), 1)
	}
	return page, nil
}

// capture keeps a response in memory.
type capture struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (c *capture) Header() http.Header         { return c.header }
func (c *capture) WriteHeader(status int)      { c.status = status }
func (c *capture) Write(b []byte) (int, error) { return c.body.Write(b) }

var (
	externalLink = regexp.MustCompile(`<link [^>]*href="https?://[^>]*>`)
	// manifestLink is of an application to install, whose file names paths that
	// are not asynqmon's here; and browsers fetch it without a login.
	manifestLink = regexp.MustCompile(`<link [^>]*rel="manifest"[^>]*>`)
	inlineScript = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
)

// consolePolicy allows the inline scripts of asynqmon's page by their digests,
// and the styles that its components insert as they are drawn.
func consolePolicy(scripts [][][]byte) string {
	var digests strings.Builder
	for _, s := range scripts {
		sum := sha256.Sum256(s[1])
		fmt.Fprintf(&digests, " 'sha256-%s'", base64.StdEncoding.EncodeToString(sum[:]))
	}
	return "default-src 'none'; script-src 'self'" + digests.String() + "; style-src 'self' 'unsafe-inline'; " +
		"img-src 'self' data:; font-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// ServeHTTP serves the page itself and leaves data and assets to asynqmon.
func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", c.policy)
	path := strings.TrimPrefix(r.URL.Path, queuesRoot)
	if !c.write && r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the queues are read-only here: dashboard.queues is read", http.StatusMethodNotAllowed)
		return
	}
	switch {
	case path == "/api/metrics":
		// It would ask a Prometheus server; none is configured.
		http.NotFound(w, r)
	case strings.HasPrefix(path, "/api/"), strings.HasPrefix(path, "/static/"), rootAsset.MatchString(path):
		auditQueues(r, path)
		c.next.ServeHTTP(w, c.rooted(capPageSize(r)))
	default: // any other path is a view of the page
		c.door.GiveToken(w, r, queuesRoot)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(c.index))
	}
}

// rooted puts the base path back, from which asynqmon's routes start.
func (c *console) rooted(r *http.Request) *http.Request {
	out := *r
	u := *r.URL
	u.Path = c.door.Path(u.Path)
	if u.RawPath != "" {
		u.RawPath = c.door.Path(u.RawPath)
	}
	out.URL = &u
	return &out
}

// rootAsset matches the files beside asynqmon's page, e.g. /favicon.ico.
var rootAsset = regexp.MustCompile(`^/[^/]+\.(ico|png|json|txt)$`)

// capPageSize returns the request with its page size in bounds.
func capPageSize(r *http.Request) *http.Request {
	q := r.URL.Query()
	if !q.Has("size") {
		return r
	}
	if n, err := strconv.Atoi(q.Get("size")); err == nil && n > 0 && n <= maxPageSize {
		return r
	}
	q.Set("size", strconv.Itoa(maxPageSize))
	r = r.Clone(r.Context())
	r.URL.RawQuery = q.Encode()
	return r
}
