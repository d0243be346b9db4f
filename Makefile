# The commands of the project; each says what it does in `make help`. The work itself is done by
# nginx's own build, CMake, prove, and the scripts in tools/.

NGINX_SOURCE ?= /usr/share/nginx/src
NGINX ?= $(shell command -v nginx || echo /usr/sbin/nginx)
PORT ?= 8080
MODULE = build/ngx_http_redis_rate_limit_module.so
SOURCES = $(wildcard src/*/*.cpp src/*/*.hpp lua/*.lua)

.PHONY: all help run test unit-test bench install lint format clean packages

all: $(MODULE)

help:
	@echo 'make            builds $(MODULE) against the installed nginx'
	@echo 'make run        installs what is missing, builds, serves a demonstration on port $(PORT)'
	@echo 'make test       installs what is missing, builds, runs all tests'
	@echo 'make bench      measures against nginx alone and limit_req, prints ratios'
	@echo 'make install    puts the module where the installed nginx looks for modules'
	@echo 'make lint       checks layout, names and usual mistakes of all languages here'
	@echo 'make format     lays out the C++ sources'
	@echo 'make clean      removes build/'

# --- the module, by the build of the installed nginx

all: $(MODULE)

$(MODULE): build/nginx/Makefile $(SOURCES)
	$(MAKE) -C $(NGINX_SOURCE) -f $(CURDIR)/build/nginx/Makefile modules
	cp build/nginx/$(notdir $(MODULE)) $@

# The list of sources is made by configure: a new file, or one that went, makes it anew.
build/nginx/Makefile: config config.make tools/configure-nginx src/rate_limit src/redis_client src/nginx_module
	tools/configure-nginx $(NGINX_SOURCE) build/nginx
