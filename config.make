# nginx has no flags for C++ alone: these go to the objects of this module, and to no others.

for redis_rate_limit_source in $redis_rate_limit_sources; do
    redis_rate_limit_object=$(echo "$redis_rate_limit_source" |
        sed -e "s|.*/\([^/]*/[^/]*\)\.cpp$|$NGX_OBJS/addon/\1.$ngx_objext|")
    cat << END >> "$NGX_MAKEFILE"

$redis_rate_limit_object: CFLAGS += -std=c++20 -fno-exceptions -fno-rtti -fvisibility=hidden -fno-lto -DRATE_LIMIT_DIR='"$ngx_addon_dir"' \$(REDIS_RATE_LIMIT_CFLAGS)
END
done
