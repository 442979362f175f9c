package deploytest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// decoder builds the program that builds and decodes manifests.
func decoder(t *testing.T) string {
	t.Helper()
	tool := filepath.Join(t.TempDir(), "manifests")
	build := exec.Command("go", "build", "-C", "testdata/manifests", "-o", tool, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build testdata/manifests: %v\n%s", err, out)
	}
	return tool
}

// decode returns what is wrong with a kustomization, by Kubernetes's types or ours.
func decode(tool, dir string) string {
	var errs bytes.Buffer
	cmd := exec.Command(tool, dir)
	cmd.Stderr = &errs
	list, err := cmd.Output()
	if err != nil {
		return strings.TrimSpace(errs.String())
	}
	return strings.Join(manifests(list), "\n")
}

func TestManifests(t *testing.T) {
	tool := decoder(t)
	overlays, err := filepath.Glob(filepath.Join(root, "deploy/kubernetes/overlays/*"))
	if err != nil || len(overlays) == 0 {
		t.Fatalf("overlays %v, %v", overlays, err)
	}
	for _, dir := range append(overlays, filepath.Join(root, "deploy/kubernetes/base")) {
		if problems := decode(tool, dir); problems != "" {
			t.Errorf("%s:\n%s", dir, problems)
		}
	}
}

// The rule of the adapter asks for what the autoscaler is told.
func TestAdapter(t *testing.T) {
	var values struct {
		Rules struct {
			External []struct {
				SeriesQuery  string `yaml:"seriesQuery"`
				MetricsQuery string `yaml:"metricsQuery"`
				Name         struct{ As string }
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "deploy/kubernetes/components/autoscaling/adapter-values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	if len(values.Rules.External) != 1 || !strings.Contains(string(read(t, "deploy/kubernetes/components/autoscaling/autoscaler.yaml")), "name: "+values.Rules.External[0].Name.As+"\n") {
		t.Errorf("rules %+v", values.Rules)
	}
	for _, r := range values.Rules.External {
		for _, q := range []string{r.SeriesQuery, strings.Replace(r.MetricsQuery, "<<.LabelMatchers>>", `queue="overnight"`, 1)} {
			for _, why := range query(q) {
				t.Error(why)
			}
		}
	}
}

// One mistake each is found, by name.
func TestManifestsWithAMistake(t *testing.T) {
	tool := decoder(t)
	for _, c := range []struct{ file, from, to, want string }{
		{"base/worker.yaml", "readinessProbe:", "readinesProbe:", `Deployment worker: error unmarshaling JSON: while decoding JSON: json: unknown field "readinesProbe"`},
		{"base/worker.yaml", "periodSeconds: 2", "periodSeconds: two", "cannot unmarshal string into Go struct field"},
		{"base/worker.yaml", "policy/v1", "policy/v1beta1", "not a kind that is known here"},
		{"base/worker.yaml", "terminationGracePeriodSeconds: 90", "terminationGracePeriodSeconds: 84", "worker: is killed after 84s, but shutting down takes up to 1m25s"},
		{"base/worker.yaml", "path: /readyz", "path: /ready", "worker: is not asked for /readyz where it listens, at :9464"},
		{"base/worker.yaml", "containerPort: 9464", "containerPort: 9465", "worker: is not asked for /healthz where it listens, at :9464"},
		{"base/worker.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "worker: may run as root"},
		{"base/worker.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "worker: can write to its root file system"},
		{"base/worker.yaml", "drop: [ALL]", "drop: [CHOWN]", "worker: keeps privileges"},
		{"base/worker.yaml", "limits: {memory: 512Mi}", "limits: {}", "worker: asks for no CPU, or has no limit of its memory"},
		{"base/worker.yaml", "- name: OPENAI_API_KEY", "- name: OTHER_KEY", `worker: has no secret "OPENAI_API_KEY"`},
		{"base/worker.yaml", "configMap: {name: nightshift}", "configMap: {name: other}", "worker: does not mount the configuration"},
		{"base/nightshift.yaml", "shutdown_timeout: 60s", "shutdown_timeout: 5m", "worker: is killed after 90s, but shutting down takes up to 5m25s"},
		{"base/nightshift.yaml", "ladder: nightly,", "ladder: nigthly,", "nigthly"},
		{"base/nightshift.yaml", ", token_env: NIGHTSHIFT_DASHBOARD_TOKEN", "", "dashboard.token_env names no token"},
		{"base/worker.yaml", "name: NIGHTSHIFT_REDIS_URL", "name: REDIS_URL", "worker: is told of no Redis"},
		{"base/dashboard.yaml", "- name: NIGHTSHIFT_DASHBOARD_TOKEN", "- name: TOKEN", `dashboard: has no secret "NIGHTSHIFT_DASHBOARD_TOKEN"`},
		{"components/redis/redis.yaml", "noeviction", "allkeys-lru", "redis: runs without --maxmemory-policy noeviction"},
		{"components/redis/redis.yaml", "mountPath: /data", "mountPath: /var", "redis: has no volume of its own at /data"},
		{"components/autoscaling/autoscaler.yaml", "_runnable_lines", "_runable_lines", "autoscaler: no worker exports nightshift_queue_runable_lines"},
		{"components/autoscaling/autoscaler.yaml", "queue: overnight", "queue: day", `autoscaler: there is no queue "day"`},
	} {
		t.Run(c.to, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "deploy/kubernetes"))); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, c.file)
			text, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(text), c.from) {
				t.Fatalf("%s has no %q (%v)", c.file, c.from, err)
			}
			if err := os.WriteFile(file, []byte(strings.Replace(string(text), c.from, c.to, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := decode(tool, filepath.Join(dir, "overlays/example")); !strings.Contains(got, c.want) {
				t.Errorf("found:\n%s\nwant:\n%s", got, c.want)
			}
		})
	}
}
