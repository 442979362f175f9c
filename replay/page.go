package replay

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"time"

	"github.com/go-analyze/charts"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// charted are the rows that have a chart of bars.
var charted = map[string]bool{
	"calls sent": true, "of them wasted (failed)": true, "of them probes": true, "USD wasted": true, "time to recover, s": true,
	"wait of a line, p95 s": true, "a line held a slot, mean s": true, "degraded": true,
}

const (
	chartWidth  = 620
	chartHeight = 220
	maxSteps    = 160 // points of a line
)

// pageView is what the page shows.
type pageView struct {
	*Report
	Names  []string
	Table  []Row
	Said   []string
	Charts []pageChart
}

type pageChart struct {
	Title string
	SVG   template.HTML
}

// Page is the report as one HTML page, with nothing outside of it.
func (r *Report) Page() ([]byte, error) {
	v := pageView{Report: r, Table: r.Rows(), Said: r.Notes()}
	for _, f := range r.Runs {
		v.Names = append(v.Names, f.Name())
	}
	for _, row := range v.Table {
		if !charted[row.What] {
			continue
		}
		if err := v.add(row.What, func() ([]byte, error) { return bars(v.Names, row.Numbers) }); err != nil {
			return nil, err
		}
	}
	for _, over := range []struct {
		title string
		of    func(minuteTally) int
	}{{"answers a minute", func(m minuteTally) int { return m.Answered }}, {"wasted calls a minute", func(m minuteTally) int { return m.Wasted }}} {
		if err := v.add(over.title, func() ([]byte, error) { return r.lines(v.Names, over.of) }); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	if err := pageTemplate.Execute(&out, v); err != nil {
		return nil, fmt.Errorf("write page: %w", err)
	}
	return out.Bytes(), nil
}

func (v *pageView) add(title string, draw func() ([]byte, error)) error {
	svg, err := draw()
	if err != nil {
		return fmt.Errorf("draw %s: %w", title, err)
	}
	v.Charts = append(v.Charts, pageChart{title, template.HTML(svg)}) //nolint:gosec // the library's own text; names are escaped by it
	return nil
}

func painter(height int) *charts.Painter {
	return charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: chartWidth, Height: height})
}

// bars is a bar for each run.
func bars(names []string, values []float64) ([]byte, error) {
	o := charts.NewBarChartOptionWithData([][]float64{values})
	o.Horizontal = true
	o.CategoryAxis.Labels = names
	o.Legend.Show = charts.Ptr(false)
	o.SeriesList[0].Label.Show = charts.Ptr(true)
	p := painter(60 + 28*len(names))
	if err := p.BarChart(o); err != nil {
		return nil, err
	}
	return p.Bytes()
}

// lines is a figure of every run over time.
func (r *Report) lines(names []string, of func(minuteTally) int) ([]byte, error) {
	first, last := int64(1<<62), int64(0)
	for _, f := range r.Runs {
		for _, n := range slices.Sorted(maps.Keys(f.minutes)) {
			first, last = min(first, n), max(last, n)
		}
	}
	if last <= first {
		last = first + 1
	}
	step := (last-first)/maxSteps + 1
	points := int((last-first)/step) + 1
	values := make([][]float64, len(r.Runs))
	for i, f := range r.Runs {
		values[i] = make([]float64, points)
		for n, m := range f.minutes {
			values[i][(n-first)/step] += float64(of(m)) / float64(step)
		}
	}
	o := charts.NewLineChartOptionWithData(values)
	o.Symbol = charts.Symbol{Shape: charts.SymbolNone}
	o.Legend.SeriesNames = names
	for i := range points {
		o.XAxis.Labels = append(o.XAxis.Labels, time.Unix((first+int64(i)*step)*60, 0).UTC().Format("Mon 15:04"))
	}
	o.XAxis.LabelCount, o.XAxis.BoundaryGap = min(8, points), charts.Ptr(false)
	o.YAxis[0].Min = charts.Ptr(0.0)
	p := painter(chartHeight + 80)
	if err := p.LineChart(o); err != nil {
		return nil, err
	}
	return p.Bytes()
}
