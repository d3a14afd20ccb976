package javax.annotation;

/** Marks generated code, in place of a dependency that has nothing else that is needed. */
public @interface Generated {
    String[] value();

    String date() default "";

    String comments() default "";
}
