package dashboard

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"

	"nightshift/dashboard/internal/door"
)

// maxAudited is how many tasks of one change the log names.
const maxAudited = 20

// queuesVerb is what asynqmon's API writes behind what is changed. A task's ID may
// hold a colon too, but ends in digits.
var queuesVerb = regexp.MustCompile(`:([a-z_]+)$`)

// auditQueues names a change by asynqmon's API for the log: path is behind
// queuesRoot, as in /api/queues/overnight/pending_tasks:batch_delete.
func auditQueues(r *http.Request, path string) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return
	}
	on, verb := strings.TrimPrefix(path, "/api/queues/"), strings.ToLower(r.Method)
	if m := queuesVerb.FindStringSubmatchIndex(on); m != nil {
		on, verb = on[:m[0]], on[m[2]:m[3]]
	}
	var more []slog.Attr
	if ids := taskIDs(r); len(ids) > 0 {
		more = []slog.Attr{slog.Int("tasks", len(ids)), slog.Any("ids", ids[:min(len(ids), maxAudited)])}
	}
	door.Audit(r, "queues: "+verb, on, more...)
}

// taskIDs reads the tasks that a request's body names, and leaves the body as it was.
func taskIDs(r *http.Request) []string {
	body, err := io.ReadAll(r.Body)
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body} // an error comes again
	var named struct {
		TaskIDs []string `json:"task_ids"`
	}
	if err != nil || json.Unmarshal(body, &named) != nil {
		return nil
	}
	return named.TaskIDs
}
