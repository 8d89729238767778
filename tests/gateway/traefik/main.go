// Command traefik is a small gateway made of Traefik's own parts: its controllers of the Gateway API
// and of Ingresses, its matching of requests and its weighted balancer. The whole of Traefik needs
// three times the packages, most of them for DNS providers and clouds.
//
// It takes the cluster of KUBECONFIG and serves the listeners of two local ports: one over HTTP/1.1 and
// over HTTP/2 without TLS, and one with TLS and the certificates of Gateways and Ingresses. Both get
// the address 127.0.0.1.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"sync/atomic"

	"github.com/traefik/traefik/v3/pkg/config/dynamic"
	"github.com/traefik/traefik/v3/pkg/middlewares/requestdecorator"
	muxer "github.com/traefik/traefik/v3/pkg/muxer/http"
	"github.com/traefik/traefik/v3/pkg/provider"
	"github.com/traefik/traefik/v3/pkg/provider/kubernetes/gateway"
	"github.com/traefik/traefik/v3/pkg/provider/kubernetes/ingress"
	"github.com/traefik/traefik/v3/pkg/safe"
	"github.com/traefik/traefik/v3/pkg/server/service/loadbalancer/wrr"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: KUBECONFIG=FILE traefik PORT TLS_PORT")
	}
	plain, secure := "127.0.0.1:"+os.Args[1], "127.0.0.1:"+os.Args[2]
	entryPoints := map[string]gateway.Entrypoint{"web": {Address: plain}, "websecure": {Address: secure}}
	configurations := make(chan dynamic.Message, 16)
	provide(&gateway.Provider{
		EntryPoints:   entryPoints,
		StatusAddress: &gateway.StatusAddress{IP: "127.0.0.1"},
	}, configurations)
	provide(&ingress.Provider{
		IngressEndpoint: &ingress.EndpointIngress{IP: "127.0.0.1"},
	}, configurations)
	var current atomic.Pointer[state]
	current.Store(&state{})
	go follow(configurations, &current)
	go serveTLS(secure, &current)
	serve(plain, &current)
}

// state is what the listeners serve.
type state struct {
	plain, secure *muxer.Muxer
	certificates  []tls.Certificate
}

// provide starts a controller.
func provide(controller provider.Provider, configurations chan<- dynamic.Message) {
	if err := controller.Init(); err != nil {
		log.Fatal(err)
	}
	if err := controller.Provide(configurations, safe.NewPool(context.Background())); err != nil {
		log.Fatal(err)
	}
}

// follow puts the routes of each configuration in the place of those before of the same controller.
func follow(configurations <-chan dynamic.Message, current *atomic.Pointer[state]) {
	proxies := newProxies()
	known := map[string]*dynamic.Configuration{}
	for message := range configurations {
		known[message.ProviderName] = message.Configuration
		made, err := newState(slices.Collect(maps.Values(known)), proxies)
		if err != nil {
			log.Print(err)
			continue
		}
		current.Store(made)
		log.Printf("%s: %d routers", message.ProviderName, len(message.Configuration.HTTP.Routers))
	}
}

func newState(configurations []*dynamic.Configuration, proxies proxies) (*state, error) {
	// A router without entry points is that of an Ingress, which is served with and without TLS.
	plain, err := newMuxer(configurations, proxies, func(router *dynamic.Router) bool {
		return router.TLS == nil
	})
	if err != nil {
		return nil, err
	}
	secure, err := newMuxer(configurations, proxies, func(router *dynamic.Router) bool {
		return router.TLS != nil || len(router.EntryPoints) == 0
	})
	if err != nil {
		return nil, err
	}
	made := &state{plain: plain, secure: secure}
	for _, wanted := range configurations {
		if wanted.TLS == nil {
			continue
		}
		for _, each := range wanted.TLS.Certificates {
			certificate, err := each.GetCertificate()
			if err != nil {
				return nil, err
			}
			made.certificates = append(made.certificates, certificate)
		}
	}
	return made, nil
}

func serve(address string, current *atomic.Pointer[state]) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	handler := newHandler(func() *muxer.Muxer { return current.Load().plain })
	server := http.Server{Addr: address, Handler: handler, Protocols: protocols}
	log.Fatal(server.ListenAndServe())
}

func serveTLS(address string, current *atomic.Pointer[state]) {
	handler := newHandler(func() *muxer.Muxer { return current.Load().secure })
	server := http.Server{Addr: address, Handler: handler, TLSConfig: &tls.Config{
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{
				Certificates: current.Load().certificates,
				NextProtos:   []string{"h2", "http/1.1"},
			}, nil
		},
	}}
	log.Fatal(server.ListenAndServeTLS("", ""))
}

// newHandler makes the handler of the current routes.
func newHandler(routes func() *muxer.Muxer) http.Handler {
	// Rules about host names read the host that the decorator stores in the request's context.
	decorator := requestdecorator.New(nil)
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if current := routes(); current != nil {
			decorator.ServeHTTP(writer, request, current.ServeHTTP)
			return
		}
		http.NotFound(writer, request)
	})
}

// newMuxer makes the routes of the wanted routers.
func newMuxer(configurations []*dynamic.Configuration, proxies proxies, isWanted func(*dynamic.Router) bool) (*muxer.Muxer, error) {
	parser, err := muxer.NewSyntaxParser()
	if err != nil {
		return nil, err
	}
	made := muxer.NewMuxer(parser)
	for _, configuration := range configurations {
		for name, router := range configuration.HTTP.Routers {
			if !isWanted(router) {
				continue
			}
			handler, err := newService(configuration.HTTP, router.Service, proxies)
			if err != nil {
				return nil, fmt.Errorf("router %s: %w", name, err)
			}
			if err := made.AddRoute(router.Rule, router.RuleSyntax, router.Priority, handler); err != nil {
				return nil, fmt.Errorf("router %s: %w", name, err)
			}
		}
	}
	return made, nil
}

// newService makes the handler of a service: servers, or other services with weights.
func newService(wanted *dynamic.HTTPConfiguration, name string, proxies proxies) (http.Handler, error) {
	service := wanted.Services[name]
	if service == nil {
		return nil, fmt.Errorf("no service %s", name)
	}
	balancer := wrr.New(nil, false)
	if service.Weighted != nil {
		for _, part := range service.Weighted.Services {
			handler, err := newPart(wanted, part, proxies)
			if err != nil {
				return nil, err
			}
			balancer.Add(part.Name, handler, part.Weight, false)
		}
		return balancer, nil
	}
	if service.LoadBalancer == nil {
		return nil, fmt.Errorf("service %s is neither of servers nor weighted", name)
	}
	for _, server := range service.LoadBalancer.Servers {
		handler, err := proxies.to(server.URL)
		if err != nil {
			return nil, err
		}
		balancer.AddServer(server.URL, handler, server)
	}
	return balancer, nil
}

// newPart makes the handler of a weighted service; one with a status answers with that alone.
func newPart(wanted *dynamic.HTTPConfiguration, part dynamic.WRRService, proxies proxies) (http.Handler, error) {
	if part.Status == nil {
		return newService(wanted, part.Name, proxies)
	}
	return http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		http.Error(writer, part.Name, *part.Status)
	}), nil
}

// proxies are the connections to servers, which outlive a configuration.
type proxies struct {
	http1, http2 http.RoundTripper
}

func newProxies() proxies {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return proxies{
		http1: &http.Transport{MaxIdleConnsPerHost: 64},
		http2: &http.Transport{Protocols: protocols},
	}
}

func (p proxies) to(address string) (http.Handler, error) {
	target, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	transport := p.http1
	if target.Scheme == "h2c" {
		target.Scheme, transport = "http", p.http2
	}
	return &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(target)
			request.Out.Host = request.In.Host
		},
		Transport:     transport,
		FlushInterval: -1,
	}, nil
}
