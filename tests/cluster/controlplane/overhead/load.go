package overhead

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

type load struct {
	kubeconfig string
	namespace  string
	template   string
	clients    int
	pods       int
	rate       float64
	patience   time.Duration
}

// figures are what Load prints: one JSON object.
type figures struct {
	Pods       int         `json:"pods"`
	Seconds    float64     `json:"seconds"`
	CreateMS   percentiles `json:"create_ms"`
	Bound      int         `json:"bound"`
	BoundMS    percentiles `json:"bound_ms"`
	CPUSeconds float64     `json:"cpu_seconds"`
}

type percentiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Load creates pods and measures.
//
//  1. Clients, each with a connection that it keeps, POST the template; its name, "NAME", becomes p-0, p-1 and so on.
//     They go on as soon as they are answered, or with a rate at that rate, however long answers take.
//  2. With some patience it waits until all pods have a node; each one's time runs from before its POST to the event
//     of a watch that shows the node.
//
// Source of what could be mistaken for a limit of the API server: client-go keeps 25 idle connections a host, so the
// transport is our own.
func Load() {
	var load load
	flag.StringVar(&load.kubeconfig, "kubeconfig", "", "how to reach the API server")
	flag.StringVar(&load.namespace, "namespace", "default", "where the pods go")
	flag.StringVar(&load.template, "pod", "", "JSON file with the pod")
	flag.IntVar(&load.clients, "clients", 32, "requests at a time")
	flag.IntVar(&load.pods, "pods", 1000, "pods in all")
	flag.Float64Var(&load.rate, "rate", 0, "pods a second; 0: as many as are answered")
	flag.DurationVar(&load.patience, "patience", 0, "how long to wait for nodes after the last creation")
	flag.Parse()
	figures, err := load.run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "pod-load:", err)
		os.Exit(1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(figures)
}

func (l *load) run(ctx context.Context) (*figures, error) {
	config, err := clientcmd.BuildConfigFromFlags("", l.kubeconfig)
	if err != nil {
		return nil, err
	}
	template, err := os.ReadFile(l.template)
	if err != nil {
		return nil, err
	}
	client, err := l.client(config)
	if err != nil {
		return nil, err
	}
	began := make([]time.Time, l.pods)
	var bound *binds
	if l.patience > 0 {
		if bound, err = l.watch(ctx, config); err != nil {
			return nil, err
		}
	}
	start := time.Now()
	created, err := l.create(client, config.Host, template, began)
	if err != nil {
		return nil, err
	}
	result := &figures{Pods: l.pods, Seconds: time.Since(start).Seconds(), CreateMS: percentilesOf(created)}
	if bound != nil {
		times := bound.wait(l.pods, l.patience)
		var taken []time.Duration
		for number, when := range times {
			taken = append(taken, when.Sub(began[number]))
		}
		result.Bound, result.BoundMS = len(taken), percentilesOf(taken)
	}
	result.CPUSeconds = cpuSeconds()
	return result, nil
}

func (l *load) client(config *rest.Config) (*http.Client, error) {
	secured, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	transport, err := rest.HTTPWrappersForConfig(config, &http.Transport{
		TLSClientConfig:     secured,
		MaxIdleConnsPerHost: l.clients,
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{}, // HTTP/1.1: a connection each
	})
	return &http.Client{Transport: transport}, err
}

// create fills began, and returns how long each creation took.
func (l *load) create(client *http.Client, host string, template []byte, began []time.Time) ([]time.Duration, error) {
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/pods", host, l.namespace)
	taken := make([]time.Duration, l.pods)
	failed := make(chan error, l.clients)
	numbers := make(chan int)
	var wait sync.WaitGroup
	for range l.clients {
		wait.Go(func() {
			for number := range numbers {
				body := bytes.Replace(template, []byte("NAME"), []byte("p-"+strconv.Itoa(number)), 1)
				began[number] = time.Now()
				if err := post(client, url, body); err != nil {
					failed <- err
					return
				}
				taken[number] = time.Since(began[number])
			}
		})
	}
	err := l.hand(numbers, failed)
	close(numbers)
	wait.Wait()
	if err == nil {
		select {
		case err = <-failed:
		default:
		}
	}
	return taken, err
}

// hand gives every number to a client, at the rate if there is one.
func (l *load) hand(numbers chan<- int, failed <-chan error) error {
	start := time.Now()
	for number := range l.pods {
		if l.rate > 0 {
			time.Sleep(time.Until(start.Add(time.Duration(float64(number) / l.rate * float64(time.Second)))))
		}
		select {
		case numbers <- number:
		case err := <-failed:
			return err
		}
	}
	return nil
}

func post(client *http.Client, url string, body []byte) error {
	answer, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// binds are the first events that show pods with a node, by the pod's number.
type binds struct {
	mutex sync.Mutex
	times map[int]time.Time
}

func (l *load) watch(ctx context.Context, config *rest.Config) (*binds, error) {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	watcher, err := core.CoreV1().Pods(l.namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName!="})
	if err != nil {
		return nil, err
	}
	bound := &binds{times: map[int]time.Time{}}
	go func() {
		for event := range watcher.ResultChan() {
			pod, isPod := event.Object.(*corev1.Pod)
			var number int
			if !isPod {
				continue
			}
			if _, err := fmt.Sscanf(pod.Name, "p-%d", &number); err != nil {
				continue
			}
			bound.mutex.Lock()
			if _, seen := bound.times[number]; !seen {
				bound.times[number] = time.Now()
			}
			bound.mutex.Unlock()
		}
	}()
	return bound, nil
}

// wait gives what was seen when all pods have a node, or patience ends.
func (b *binds) wait(pods int, patience time.Duration) map[int]time.Time {
	deadline := time.Now().Add(patience)
	for {
		b.mutex.Lock()
		if len(b.times) == pods || time.Now().After(deadline) {
			return b.times // still locked: nobody adds to it any more
		}
		b.mutex.Unlock()
		time.Sleep(10 * time.Millisecond)
	}
}

func percentilesOf(taken []time.Duration) percentiles {
	if len(taken) == 0 {
		return percentiles{}
	}
	slices.Sort(taken)
	at := func(part int) float64 { return taken[(len(taken)-1)*part/100].Seconds() * 1000 }
	return percentiles{P50: at(50), P99: at(99)}
}

func cpuSeconds() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // fails for a wrong argument only
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}
